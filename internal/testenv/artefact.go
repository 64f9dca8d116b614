package testenv

import "os"

// Artefact creates a file for what a failed test leaves to be looked at, in the directory that RIDESHARE_ARTEFACTS names, else
// in the directory of temporary files. A "*" in name becomes a number that no other file has. The caller closes the file.
func Artefact(name string) (*os.File, error) {
	return os.CreateTemp(os.Getenv("RIDESHARE_ARTEFACTS"), name)
}
