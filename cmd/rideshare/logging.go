package main

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"rideshare/internal/telemetry"
)

// auto is the value of the log settings that depends on where the log goes.
const auto = "auto"

// logging holds the settings of the log, which every part writes to standard output.
type logging struct {
	LogLevel  string `default:"auto" enum:"auto,debug,info,warn,error" env:"LOG_LEVEL" help:"Lowest level that is logged, here and in processes that this one starts: debug, info, warn, error, or auto: info, but warn for up on a terminal (${default})."`
	LogFormat string `default:"auto" enum:"auto,text,json" env:"LOG_FORMAT" help:"Form of the log: text for people, json, a line for each record, or auto: text on a terminal, json elsewhere. Text on a terminal has colors, unless NO_COLOR is set (${default})."`
	Quiet     bool   `short:"q" xor:"loglevel" help:"Log warnings and errors only, as --log-level warn."`
	Verbose   bool   `short:"v" xor:"loglevel" help:"Log everything, as --log-level debug."`
}

// logger returns the logger of a part. It replaces auto, -q and -v by the level and the format that apply.
func (l *logging) logger(out *output, part string) (*slog.Logger, error) {
	onTerminal := isTerminal(out.stdout)
	switch {
	case l.Quiet:
		l.LogLevel = "warn"
	case l.Verbose:
		l.LogLevel = "debug"
	case l.LogLevel == auto && part == "up" && onTerminal:
		l.LogLevel = "warn" // the terminal is for the greeting
	case l.LogLevel == auto:
		l.LogLevel = "info"
	}
	if l.LogFormat == auto {
		l.LogFormat = "json"
		if onTerminal {
			l.LogFormat = "text"
		}
	}
	log, err := telemetry.NewLogger(out.stdout, telemetry.LogConfig{Level: l.LogLevel, Text: l.LogFormat == "text", Color: inColor(out.stdout)}, part)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return log, nil
}

// errorLogger returns the logger of a command that writes its log to standard error.
func errorLogger(out *output, level, part string) (*slog.Logger, error) {
	return telemetry.NewLogger(out.stderr, telemetry.LogConfig{Level: level, Text: isTerminal(out.stderr), Color: inColor(out.stderr)}, part)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// inColor reports whether text on w may have colors. NO_COLOR is a convention of many programs (no-color.org).
func inColor(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
