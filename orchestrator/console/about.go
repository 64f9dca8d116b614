package console

import (
	_ "embed" // for licences.txt
	"strings"

	"rideshare/internal/settings"
)

// About is what a process and the parts that it calls run with: the answer of GET /api/v1/settings.
type About struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	// Settings are the settings of the process that answers. They hold no secrets.
	Settings []settings.Setting `json:"settings"`
	// Parts are the other parts that this process calls: persdb, launchers and workers. It is empty if they are in this process.
	Parts []settings.Part `json:"parts"`
	// Modules are the libraries in the binary.
	Modules []Module `json:"modules"`
}

// Module is a library with its licence.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	Licence string `json:"licence"`
}

// licences has a line "MODULE LICENCE" for each module in the binary. A test in cmd/rideshare writes the file, and checks
// it against the modules' own licence texts.
//
//go:embed licences.txt
var licences string

// LicenceOf returns the name of a module's licence, or "" for a module that is not in the binary.
func LicenceOf(module string) string {
	for line := range strings.Lines(licences) {
		if name, licence, _ := strings.Cut(strings.TrimSpace(line), " "); name == module {
			return licence
		}
	}
	return ""
}
