package testenv

import "os"

// Artefact creates a file for the evidence of a failed test, in the directory named by RIDESHARE_ARTEFACTS, or else
// in the directory of temporary files. A "*" in name becomes a unique number. The caller closes the file.
func Artefact(name string) (*os.File, error) {
	return os.CreateTemp(os.Getenv("RIDESHARE_ARTEFACTS"), name)
}
