package console

import (
	_ "embed" // for licences.txt
	"strings"
)

// About is what a process runs with: the answer of GET /api/v1/settings.
type About struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	// Settings are the settings of the process that answers. They hold no secrets.
	Settings []Setting `json:"settings"`
	// Modules are the libraries in the binary.
	Modules []Module `json:"modules"`
}

// Setting is a setting with its value and the value's source: default, environment or flag.
type Setting struct {
	Name   string `json:"name"`
	Env    string `json:"env"` // its environment variables
	Value  string `json:"value"`
	Source string `json:"source"`
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
