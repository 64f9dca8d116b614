package deploy_test

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// restoreScript is embedded, so that tests/mutants can replace it.
//
//go:embed restore.sh
var restoreScript string

// volumes is what docker does for a restore: volumes are folders, and the script of a container runs on these.
const volumes = `#!/bin/sh
echo "docker $*" >>"$ENGINE/calls"
case "$*" in
  'ps -aq '*) cat "$ENGINE/containers" 2>/dev/null ;;
  'volume create '*) for name; do :; done; mkdir -p "$ENGINE/$name" ;;
  run*) "$ENGINE/step" || exit ;;
esac
case "$*" in
  run*'archive cluster /data/.restoring')
    [ ! -e "$ENGINE/later" ] || cp "$ENGINE/later" "$ENGINE/containers"
    exec cat "$ENGINE/id" ;;
  run*)
    while [ "$1" != -euc ]; do
      case $1 in *\"src=*) from=${1#*\"src=} ;; esac
      shift
    done
    ln -sfn "$(printf '%s' "${from%\"}" | sed 's/""/"/g')" "$ENGINE/mounted"
    script=$(printf '%s' "$2" | sed "s|cd /data;|cd '$ENGINE/ours_persdb';|; s|/from/|$ENGINE/mounted/|g")
    exec sh -euc "$script" restore "$4" "$5" "${6:+$ENGINE/ours_archive${6#/archive}}" ;;
esac
exit 0
`

// step fails at its call number FAIL_AT.
const step = `#!/bin/sh
echo >>"$ENGINE/steps"
[ "$(wc -l <"$ENGINE/steps")" != "${FAIL_AT:-0}" ]
`

// failingMove is a mv that fails if its step does, after the first of several files.
const failingMove = `#!/bin/sh
! "$ENGINE/step" || exec /bin/mv "$@"
for to; do :; done
[ $# -lt 3 ] || /bin/mv "$1" "$to"
exit 1
`

// stamp is the time in the name of a folder that went aside.
var stamp = regexp.MustCompile(`\.replaced-[^/]+/`)

// stored is a stack with data, an archive of two clusters, and a folder to restore.
func stored(t *testing.T) *stack {
	t.Helper()
	s := newStack(t)
	s.write(filepath.Join(s.root, "deploy", "restore.sh"), restoreScript)
	s.write(filepath.Join(s.engine, "step"), step)
	for name, script := range map[string]string{"docker": volumes, "mv": failingMove, "sync": "#!/bin/sh\n[ ! -e \"$ENGINE/full\" ]\n", "chown": "#!/bin/sh\necho \"chown $*\" >>\"$ENGINE/calls\"\n"} {
		s.write(filepath.Join(s.engine, "bin", name), script)
	}
	s.write(filepath.Join(s.root, "deploy", "images.sh"), "#!/bin/sh\nprintf 'RIDESHARE_IMAGE=one\\nRABBITMQ_IMAGE=two\\n' >\"$1\"\n")
	for name, text := range map[string]string{
		"ours_persdb/persdb.db": "old tables", "ours_persdb/log.db": "old log", "ours_persdb/log.db-wal": "old end of the log",
		"ours_archive/cluster-a/log/1": "archived by a", "ours_archive/cluster-b/log/1": "archived by b",
		"from/persdb.db": "new tables", "from/log.db": "new log", "id": "cluster-a\n",
	} {
		s.write(filepath.Join(s.engine, name), text)
	}
	if err := os.Chmod(filepath.Join(s.engine, "ours_persdb"), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// restore restores a folder that is named as seen from the engine's folder.
func (s *stack) restore(folder string, settings ...string) (said string, failed bool) {
	s.t.Helper()
	s.write(filepath.Join(s.engine, "steps"), "")
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.root, "deploy", "stack.sh"), "restore", folder)
	cmd.Env, cmd.Dir = append(s.env, settings...), s.engine
	out, err := cmd.CombinedOutput()
	return string(out), err != nil
}

// texts returns the texts below a folder of the engine by name. The time in a name is left out.
func (s *stack) texts(folder string) map[string]string {
	s.t.Helper()
	texts, root := map[string]string{}, filepath.Join(s.engine, folder)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(root, path)
			texts[stamp.ReplaceAllString(name, ".replaced/")] = s.read(path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return texts
}

func (s *stack) mode() fs.FileMode {
	s.t.Helper()
	info, err := os.Stat(filepath.Join(s.engine, "ours_persdb"))
	if err != nil {
		s.t.Fatal(err)
	}
	return info.Mode().Perm()
}

// namesReplaced complains of a folder of old data that said does not name.
func (s *stack) namesReplaced(said string) {
	s.t.Helper()
	folders, err := filepath.Glob(filepath.Join(s.engine, "ours_persdb", ".replaced-*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, folder := range folders {
		if !strings.Contains(said, filepath.Base(folder)) {
			s.t.Errorf("%s is not named:\n%s", filepath.Base(folder), said)
		}
	}
}

// A restore that fails at any of its steps has lost nothing, neither data nor archive. Either nothing was moved, or persdb cannot start
// on what is there, and is said to be so. The same command then completes it, and names each folder that has old data.
func TestStack_Restore_FailsAtEachStep(t *testing.T) {
	t.Parallel()
	for step := 1; ; step++ {
		s := stored(t)
		before := []map[string]string{s.texts("ours_persdb"), s.texts("ours_archive")}
		said, failed := s.restore("from", fmt.Sprint("FAIL_AT=", step))
		calls := s.read(filepath.Join(s.engine, "calls"))
		closed := s.mode() == 0o700 && strings.Contains(calls, "chown 0:0 .\n") && !strings.HasSuffix(calls, "chown 65532:65532 .\n")
		moved := false
		for i, folder := range []string{"ours_persdb", "ours_archive"} {
			texts := s.texts(folder)
			there := slices.Collect(maps.Values(texts))
			for name, text := range before[i] {
				moved = moved || texts[name] != text
				if !slices.Contains(there, text) {
					t.Errorf("step %d: %s of %s is lost", step, name, folder)
				}
			}
		}
		told, named := strings.Contains(said, "persdb cannot start"), strings.Contains(said, "; .replaced-2")
		if failed && (moved && !closed || told != closed || named != closed) {
			t.Errorf("step %d: moved: %t, can be entered: %t, said:\n%s", step, moved, !closed, said)
		}
		s.namesReplaced(said)
		if failed {
			more, twice := s.restore("from")
			if twice {
				t.Fatalf("again after step %d:\n%s", step, more)
			}
			s.namesReplaced(more)
		}
		data, archive := s.texts("ours_persdb"), s.texts("ours_archive")
		for name, want := range map[string]string{"persdb.db": "new tables", "log.db": "new log", "log.db-wal": "", ".replaced/log.db-wal": "old end of the log"} {
			if data[name] != want {
				t.Errorf("step %d, then again: %s has %q, want %q", step, name, data[name], want)
			}
		}
		if archive[".replaced/cluster-a/log/1"] != "archived by a" || archive["cluster-b/log/1"] != "archived by b" || s.mode() != 0o755 {
			t.Errorf("step %d, then again: the archive has %v, the data's folder mode %v", step, archive, s.mode())
		}
		if calls = s.read(filepath.Join(s.engine, "calls")); !strings.HasSuffix(calls, "chown 65532:65532 .\n") {
			t.Errorf("step %d, then again: the data's folder is not persdb's:\n%s", step, calls)
		}
		if !failed {
			if step < 12 { // five containers; the archive, three files, their folder, the new files
				t.Errorf("got %d steps that can fail, want at least 11", step-1)
			}
			return
		}
	}
}

// A restore that cannot be done changes nothing.
func TestStack_Restore_Refused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, text            string // written before; nothing if empty
		folder, setting, want string
	}{
		"NoFolder":    {folder: "", want: "make restore FROM=FOLDER"},
		"NotThere":    {folder: "none", want: "none"},
		"Containers":  {file: "containers", text: "0123abcd\n", folder: "from", want: "make down removes them"},
		"NoTables":    {file: "other/log.db", text: "log", folder: "other", want: "no persdb.db"},
		"NoDataThere": {file: "from/persdb.db", text: "other", folder: "from", want: "is no data folder"},
		"PostgreSQL":  {folder: "from", want: "is in PostgreSQL"},
		"StartedNow":  {file: "later", text: "0123abcd\n", folder: "from", want: "has containers now"},
		"DiskFull":    {file: "full", folder: "from", want: "the copy failed; nothing was changed"},
		"Volume":      {folder: "from", setting: "ARCHIVE_VOLUME=other", want: "ARCHIVE_VOLUME is other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stored(t)
			before := fmt.Sprint(s.texts("ours_persdb"), s.texts("ours_archive"), s.mode())
			if tc.file != "" {
				s.write(filepath.Join(s.engine, tc.file), tc.text)
			}
			switch name {
			case "NoDataThere":
				if err := os.Remove(filepath.Join(s.engine, "id")); err != nil {
					t.Fatal(err)
				}
			case "PostgreSQL":
				s.write(filepath.Join(s.root, ".stack", "ours", "postgres"), "1\n")
			}
			said, failed := s.restore(tc.folder, tc.setting)
			if after := fmt.Sprint(s.texts("ours_persdb"), s.texts("ours_archive"), s.mode()); !failed || !strings.Contains(said, tc.want) || after != before {
				t.Errorf("failed: %t, want %q of:\n%s\nvolumes before %s, after %s", failed, tc.want, said, before, after)
			}
		})
	}
}

// In the archive, only the folder of the restored cluster is moved aside, below the folder that ARCHIVE_URL names. New volumes belong to
// the stack, so that a failed start does not remove them.
func TestStack_Restore_Archive(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ url, id, aside, said string }{
		"Copy":     {"file:///archive", "cluster-a", ".replaced/cluster-a/log/1", "the archive begins anew for cluster cluster-a"},
		"Restored": {"file:///archive", "cluster-c", "", "the data is that of"},
		"Below":    {"file:///archive/below?x=y", "cluster-d", "below/.replaced/cluster-d/log/1", "begins anew"},
		"Bucket":   {"s3://b/p", "cluster-a", "", "give ARCHIVE_URL another folder or prefix"},
		"None":     {"", "cluster-a", "", "the data is that of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stored(t)
			s.write(filepath.Join(s.engine, "id"), tc.id+"\n")
			s.write(filepath.Join(s.engine, "ours_archive", "below", "cluster-d", "log", "1"), "archived by d")
			said, failed := s.restore("from", "ARCHIVE_URL="+tc.url)
			var aside []string
			for name := range s.texts("ours_archive") {
				if strings.Contains(name, ".replaced") {
					aside = append(aside, name)
				}
			}
			if failed || !strings.Contains(said, tc.said) || strings.Join(aside, " ") != tc.aside || strings.Contains(said, "begins anew") != (tc.aside != "") {
				t.Errorf("failed: %t, aside %q, want %q; want %q of:\n%s", failed, aside, tc.aside, tc.said, said)
			}
			for _, volume := range []string{"persdb", "archive"} {
				if want := "--label com.docker.compose.project=ours --label com.docker.compose.volume=" + volume + " ours_" + volume + "\n"; !strings.Contains(s.read(filepath.Join(s.engine, "calls")), want) {
					t.Errorf("no volume was made with %q", want)
				}
			}
		})
	}
}

// The folder may have any name.
func TestStack_Restore_Name(t *testing.T) {
	t.Parallel()
	s := stored(t)
	name := `a:b,"c" d`
	if err := os.Rename(filepath.Join(s.engine, "from"), filepath.Join(s.engine, name)); err != nil {
		t.Fatal(err)
	}
	said, failed := s.restore(name)
	_, mount, _ := strings.Cut(s.read(filepath.Join(s.engine, "calls")), " --mount ")
	mount, _, _ = strings.Cut(mount, " --entrypoint ")
	fields, err := csv.NewReader(strings.NewReader(mount)).Read() // as docker reads it
	if want := "src=" + filepath.Join(s.engine, name); failed || err != nil || !slices.Contains(fields, want) || s.texts("ours_persdb")["persdb.db"] != "new tables" {
		t.Errorf("failed: %t, %v, want %q in %q, and the new data:\n%s", failed, err, want, fields, said)
	}
}

// The archive may be a folder of this machine instead of a volume. Only persdb's user enters it, since another machine may not let root in.
func TestStack_Restore_ArchiveFolder(t *testing.T) {
	t.Parallel()
	s := stored(t)
	said, failed := s.restore("from", "ARCHIVE_VOLUME=/mnt/archive")
	calls := s.read(filepath.Join(s.engine, "calls"))
	if failed || strings.Count(calls, " --user 65532:65532 -v /mnt/archive:/archive ") != 1 || strings.Count(calls, "/mnt/archive") != 1 || strings.Contains(calls, "volume=archive") {
		t.Errorf("failed: %t, want the folder mounted once and no volume made:\n%s\n%s", failed, calls, said)
	}
}
