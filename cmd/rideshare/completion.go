package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand is `rideshare completion`.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help implements kong's longer help.
func (*completionCommand) Help() string {
	return `The script completes commands, flags, the values of flags that have a list, and files.

Examples:
  source <(rideshare completion bash)                                       for this shell; in ~/.bashrc for all
  rideshare completion zsh > "${fpath[1]}/_rideshare"                       a folder of $fpath, then start zsh again
  rideshare completion fish > ~/.config/fish/completions/rideshare.fish`
}

// Run prints the script.
func (c *completionCommand) Run(kctx *kong.Context, out *output) error {
	write := map[string]func(io.Writer, []completed) error{"bash": completeBash, "zsh": completeZsh, "fish": completeFish}[c.Shell]
	return write(out.stdout, completions(kctx.Model.Node))
}

// completed is what can follow one command.
type completed struct {
	path  string // "", "/archive", "/archive/list"
	words []choice
	// flags are the flags of this command and of its parent commands. The program itself has the path "".
	flags []flagChoice
}

// choice is a word with its meaning.
type choice struct{ word, help string }

// flagChoice is a flag.
type flagChoice struct {
	name   string // without --
	short  string // without -, "" if there is none
	help   string
	values []string // if only these are allowed
	file   bool     // the value is a file or folder
	none   bool     // the flag has no value
}

// completions returns what can follow the program, and each command that is not hidden, in the order of the help.
func completions(root *kong.Node) []completed {
	all := []completed{complete(root, "")}
	for _, child := range root.Children {
		if child.Hidden {
			continue
		}
		for _, c := range completions(child) {
			c.path = "/" + child.Name + c.path
			all = append(all, c)
		}
	}
	return all
}

func complete(node *kong.Node, path string) completed {
	c := completed{path: path}
	for _, child := range node.Children {
		if !child.Hidden {
			c.words = append(c.words, choice{child.Name, brief(child.Help)})
		}
	}
	for _, p := range node.Positional {
		for _, value := range enum(p) {
			c.words = append(c.words, choice{value, brief(p.Help)})
		}
	}
	for _, level := range node.AllFlags(true) {
		for _, f := range level {
			c.flags = append(c.flags, flagOf(f))
		}
	}
	slices.SortStableFunc(c.flags, func(a, b flagChoice) int { return strings.Compare(a.name, b.name) })
	return c
}

func flagOf(f *kong.Flag) flagChoice {
	c := flagChoice{name: f.Name, help: brief(f.Help), values: enum(f.Value), none: f.IsBool(), file: f.PlaceHolder == "FILE" || f.PlaceHolder == "DIR"}
	if f.Short != 0 {
		c.short = string(f.Short)
	}
	return c
}

// enum returns the allowed values, nil if there is no list of them.
func enum(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// brief is the first part of a help text, without characters that mean something in a shell's quotes.
func brief(help string) string {
	for _, end := range []string{". ", ": ", "; ", " ("} {
		help, _, _ = strings.Cut(help, end)
	}
	return strings.NewReplacer("'", "", "\\", "").Replace(strings.TrimSuffix(help, "."))
}

// paths returns the paths of all commands, as alternatives of a case of a shell.
func paths(all []completed) string {
	var list []string
	for _, c := range all[1:] {
		list = append(list, c.path)
	}
	return strings.Join(list, "|")
}

// valueCases returns the cases "COMMAND FLAG" in two lists: listed has the flags with a fixed set of values, together with
// these values; files has the flags whose value is a file. A flag of several commands has a case for each of them.
func valueCases(all []completed) (listed []choice, files []string) {
	for _, c := range all {
		for _, f := range c.flags {
			key := fmt.Sprintf("%q", c.path+" --"+f.name)
			switch {
			case f.values != nil:
				listed = append(listed, choice{key, strings.Join(f.values, " ")})
			case f.file:
				files = append(files, key)
			}
		}
	}
	return listed, files
}

// completeBash writes the script for bash. bash splits --flag=value into three words.
func completeBash(w io.Writer, all []completed) error {
	var s strings.Builder
	fmt.Fprintf(&s, `# bash completion for rideshare
_rideshare() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd= words= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case $cmd/${COMP_WORDS[i]} in %s) cmd=$cmd/${COMP_WORDS[i]} ;; esac
  done
  if [ "$cur" = = ]; then cur=; elif [ "$prev" = = ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
  COMPREPLY=()
  case "$cmd $prev" in
`, paths(all))
	listed, files := valueCases(all)
	for _, c := range listed {
		fmt.Fprintf(&s, "    %s) words='%s' ;;\n", c.word, c.help)
	}
	fmt.Fprintf(&s, `    %s) return ;;
    *)
      case $cmd in
`, strings.Join(files, "|"))
	for _, c := range all {
		var words []string
		for _, word := range c.words {
			words = append(words, word.word)
		}
		for _, f := range c.flags {
			words = append(words, "--"+f.name)
		}
		fmt.Fprintf(&s, "        '%s') words='%s' ;;\n", c.path, strings.Join(words, " "))
	}
	s.WriteString(`      esac
      ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _rideshare rideshare
`)
	_, err := io.WriteString(w, s.String())
	return err
}

// completeZsh writes the script for zsh.
func completeZsh(w io.Writer, all []completed) error {
	var s strings.Builder
	fmt.Fprintf(&s, `#compdef rideshare
_rideshare() {
  local cmd= w prev=${words[CURRENT-1]}
  local -a choices
  for w in ${words[2,CURRENT-1]}; do
    case $cmd/$w in (%s) cmd=$cmd/$w ;; esac
  done
  if compset -P '*='; then prev=${words[CURRENT]%%%%=*}; fi
  case "$cmd $prev" in
`, paths(all))
	listed, files := valueCases(all)
	for _, c := range listed {
		fmt.Fprintf(&s, "    (%s) compadd -- %s; return ;;\n", c.word, c.help)
	}
	fmt.Fprintf(&s, `    (%s) _files; return ;;
  esac
  case $cmd in
`, strings.Join(files, "|"))
	for _, c := range all {
		fmt.Fprintf(&s, "    ('%s') choices=(\n", c.path)
		for _, word := range c.words {
			fmt.Fprintf(&s, "      '%s:%s'\n", word.word, word.help)
		}
		for _, f := range c.flags {
			fmt.Fprintf(&s, "      '--%s:%s'\n", f.name, f.help)
		}
		s.WriteString("    ) ;;\n")
	}
	s.WriteString(`  esac
  _describe rideshare choices || _files
}
if [ "$funcstack[1]" = _rideshare ]; then _rideshare; else compdef _rideshare rideshare; fi
`)
	_, err := io.WriteString(w, s.String())
	return err
}

// completeFish writes the script for fish.
func completeFish(w io.Writer, all []completed) error {
	var s strings.Builder
	s.WriteString(`# fish completion for rideshare
function __rideshare_at
  set -l cmd ''
  for word in (commandline -opc)[2..-1]
    switch $cmd/$word
      case '` + strings.ReplaceAll(paths(all), "|", "' '") + `'
        set cmd $cmd/$word
    end
  end
  test "$cmd" = "$argv[1]"
end
`)
	for _, c := range all {
		at := fmt.Sprintf("complete -c rideshare -n '__rideshare_at \"%s\"'", c.path)
		for _, word := range c.words {
			fmt.Fprintf(&s, "%s -f -a %s -d '%s'\n", at, word.word, word.help)
		}
		for _, f := range c.flags {
			fmt.Fprintf(&s, "%s -l %s", at, f.name)
			if f.short != "" {
				fmt.Fprintf(&s, " -s %s", f.short)
			}
			switch {
			case f.values != nil:
				fmt.Fprintf(&s, " -x -a '%s'", strings.Join(f.values, " "))
			case f.file:
				s.WriteString(" -r")
			case !f.none:
				s.WriteString(" -x")
			}
			fmt.Fprintf(&s, " -d '%s'\n", f.help)
		}
	}
	_, err := io.WriteString(w, s.String())
	return err
}
