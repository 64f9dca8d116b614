package main

import (
	"fmt"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"rideshare/internal/settings"
	"rideshare/orchestrator/console"
)

// secretName matches the names of settings that hold a secret. Settings that name the file of a secret are shown.
var secretName = regexp.MustCompile(`(?i)(password|secret|token|key)$`)

// effective returns the settings of a parsed command with their values and sources, without secrets.
func effective(kctx *kong.Context) []settings.Setting {
	var all []settings.Setting
	given := map[*kong.Value]bool{}
	for _, step := range kctx.Path {
		if step.Flag != nil && !step.Resolved {
			given[step.Flag.Value] = true
		}
	}
	for _, flag := range kctx.Flags() {
		if flag.Hidden || flag.Name == "help" || flag.Name == "version" {
			continue
		}
		source := "default"
		if slices.ContainsFunc(flag.Envs, func(name string) bool { _, set := os.LookupEnv(name); return set }) {
			source = "environment"
		}
		if given[flag.Value] {
			source = "flag"
		}
		all = append(all, settings.Setting{
			Name: "--" + flag.Name, Env: strings.Join(flag.Envs, ", "), Value: shown(flag.Name, kctx.FlagValue(flag)), Source: source,
		})
	}
	slices.SortFunc(all, func(a, b settings.Setting) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// given reports whether the flag is on the command line.
func (o *output) given(flag string) bool {
	return slices.ContainsFunc(o.settings, func(s settings.Setting) bool { return s.Name == flag && s.Source == "flag" })
}

// changed returns the settings that are not the default, with their sources, for a log line.
func changed(all []settings.Setting) []string {
	var texts []string
	for _, s := range all {
		if s.Source != "default" {
			texts = append(texts, fmt.Sprintf("%s=%s (%s)", s.Name, s.Value, s.Source))
		}
	}
	return texts
}

// namedURL matches the name in front of a URL, as --launcher has it for each host.
var namedURL = regexp.MustCompile(`^[a-z0-9-]+=`)

// shown returns a setting's value as text. It hides secrets, and the passwords in URLs.
func shown(name string, value any) string {
	text := fmt.Sprint(value)
	if v := reflect.ValueOf(value); v.Kind() == reflect.Slice {
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = fmt.Sprint(v.Index(i).Interface())
		}
		text = strings.Join(parts, ",")
	}
	switch {
	case text == "":
		return ""
	case secretName.MatchString(name):
		return "(hidden)"
	case !strings.Contains(text, "://"):
		return text
	}
	parts := strings.Split(text, ",")
	if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(part, "://") }) {
		parts = []string{text} // the comma is in a URL
	}
	for i, part := range parts {
		label := namedURL.FindString(part)
		parts[i] = label + shownURL(part[len(label):])
	}
	return strings.Join(parts, ",")
}

// shownURL returns a URL without its password and query.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(hidden)"
	}
	if u.RawQuery != "" {
		u.RawQuery = "hidden"
	}
	return u.Redacted()
}

// about returns the settings of this process with its version and modules.
func about(own []settings.Setting) console.About {
	a := console.About{Version: version, Settings: own}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return a
	}
	a.Go = info.GoVersion
	for _, m := range info.Deps {
		a.Modules = append(a.Modules, console.Module{Path: m.Path, Version: m.Version, Licence: console.LicenceOf(m.Path)})
	}
	return a
}
