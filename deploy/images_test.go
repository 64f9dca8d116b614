package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The files of a stand-in belong to several users, which only root can make. For others images.sh ends with what to do, before it
// makes the image; a stand-in that is there needs no root.
func TestImages_StandinWithoutRoot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, user, there, want string }{
		{"not there", "1000", "0", "deploy/debian/image.sh rabbitmq rideshare/rabbitmq:debian12 "},
		{"there", "1000", "1", "made earlier"},
		{"root", "0", "0", "making the stand-in"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &stack{t: t, root: t.TempDir(), engine: t.TempDir()}
			for _, file := range []string{"images.sh", "debian/unpack.sh", "debian/rabbitmq.sh", "debian/rabbitmq.packages"} {
				s.write(filepath.Join(s.root, "deploy", file), s.read(file))
			}
			s.write(filepath.Join(s.root, "deploy", "debian", "image.sh"), "#!/bin/sh\ntouch \"$ENGINE/made\"\n")
			s.write(filepath.Join(s.engine, "bin", "id"), "#!/bin/sh\necho \"$USER_ID\"\n")
			s.write(filepath.Join(s.engine, "bin", "docker"), `#!/bin/sh
case "$*" in
  *rideshare.recipe*rabbitmq*) [ "$THERE" = 0 ] || cat deploy/debian/unpack.sh deploy/debian/image.sh deploy/debian/rabbitmq.* | cksum | cut -d' ' -f1 ;;
  'image inspect rideshare/rabbitmq'*) [ "$THERE" = 1 ] ;;
  *{{.Id}}*|'image inspect zookeeper'*|'buildx version') ;;
  'image inspect '*|pull*) exit 1 ;;
esac
`)
			for _, name := range []string{"apt-get", "dpkg-deb"} {
				s.write(filepath.Join(s.engine, "bin", name), "#!/bin/sh\n")
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(s.root, "deploy", "images.sh"))
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(s.engine, "bin")+":"+os.Getenv("PATH"), "ENGINE="+s.engine, "GO=true", "RABBITMQ_IMAGE=", "ZOOKEEPER_IMAGE=",
				"IMAGES=", "POSTGRES=0", "OBSERVE=0", "USER_ID="+test.user, "THERE="+test.there)
			out, err := cmd.CombinedOutput()
			if refused := test.name == "not there"; !strings.Contains(string(out), test.want) || (err != nil) != refused {
				t.Errorf("got %v, %s; want %q", err, out, test.want)
			}
			if _, err := os.Stat(filepath.Join(s.engine, "made")); (err == nil) != (test.name == "root") {
				t.Errorf("made a stand-in: %t", err == nil)
			}
		})
	}
}

// The image has the CAs of the machine that builds it, where Go looks for them.
func TestImages_TrustedCAs(t *testing.T) {
	t.Parallel()
	s := &stack{t: t, root: t.TempDir(), engine: t.TempDir()}
	for _, file := range []string{"images.sh", "rideshare/Dockerfile"} {
		s.write(filepath.Join(s.root, "deploy", file), s.read(file))
	}
	s.write(filepath.Join(s.engine, "bin", "go"), "#!/bin/sh\ntouch bin/image/rideshare\n")
	s.write(filepath.Join(s.engine, "bin", "docker"), `#!/bin/sh
[ "$1" = build ] || exit 0
for context; do :; done
sed -n 's/^COPY \(--[^ ]* \)\{0,1\}//p' deploy/rideshare/Dockerfile | while read -r from to; do
  mkdir -p "$ENGINE/image${to%/*}" && cp -R "$context/$from" "$ENGINE/image$to" || exit 1
done
`)
	s.write(filepath.Join(s.engine, "cas.pem"), "the CAs\n")
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.root, "deploy", "images.sh"))
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(s.engine, "bin")+":"+os.Getenv("PATH"), "ENGINE="+s.engine, "GO=go", "SSL_CERT_FILE="+filepath.Join(s.engine, "cas.pem"),
		"RABBITMQ_IMAGE=r", "ZOOKEEPER_IMAGE=z", "IMAGES=", "POSTGRES=0", "OBSERVE=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	path := filepath.Join(s.engine, "image", "etc", "ssl", "certs", "ca-certificates.crt")
	if got := s.read(path); got != "the CAs\n" {
		t.Errorf("the image's CAs are %q, want those of this machine", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o044 != 0o044 {
		t.Errorf("the image's CAs: got %v, %v; want a file that the container's user can read", info, err)
	}
}

// What a download that failed half-way has left is not unpacked: the next attempt may get another version of it.
func TestUnpack_SecondDownload(t *testing.T) {
	t.Parallel()
	s := &stack{t: t, engine: t.TempDir()}
	s.write(filepath.Join(s.engine, "bin", "apt-get"), `#!/bin/sh
case "$*" in
  *update) touch "$ENGINE/updated" ;;
  *) [ -e "$ENGINE/updated" ] || { touch p_1.deb; exit 1; }; touch p_2.deb ;;
esac
`)
	s.write(filepath.Join(s.engine, "bin", "dpkg-deb"), "#!/bin/sh\necho \"${2##*/}\" >>\"$ENGINE/unpacked\"\nexec tar -c -T /dev/null\n")
	s.write(filepath.Join(s.engine, "finish.sh"), "")
	cmd := exec.CommandContext(t.Context(), "bash", "debian/unpack.sh", filepath.Join(s.engine, "out.tar"), filepath.Join(s.engine, "finish.sh"), "p")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(s.engine, "bin")+":"+os.Getenv("PATH"), "ENGINE="+s.engine)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := s.read(filepath.Join(s.engine, "unpacked")); got != "p_2.deb\n" {
		t.Errorf("unpacked %q, want the second download alone", got)
	}
}

// What is missing or misspelled is named before anything is built.
func TestImages_Refusals(t *testing.T) {
	t.Parallel()
	s := &stack{t: t, root: t.TempDir(), engine: t.TempDir()}
	s.write(filepath.Join(s.root, "deploy", "images.sh"), s.read("images.sh"))
	s.write(filepath.Join(s.root, "go.mod"), "module m\n\ngo 1.99\n")
	s.write(filepath.Join(s.engine, "bin", "docker"), "#!/bin/sh\necho built >>\"$ENGINE/calls\"\n")
	for setting, want := range map[string]string{"GO=no-go": "no-go is missing: install Go (1.99 or newer)", "IMAGES=none": "IMAGES is none; allowed: official, debian"} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(s.root, "deploy", "images.sh"))
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(s.engine, "bin")+":"+os.Getenv("PATH"), "ENGINE="+s.engine, "GO=true", "IMAGES=", setting)
		out, err := cmd.CombinedOutput()
		if _, called := os.Stat(filepath.Join(s.engine, "calls")); err == nil || called == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: got %v, %s; built: %t; want %q", setting, err, out, called == nil, want)
		}
	}
}

// Without docker the error names docker, not docker-compose.
func TestCompose_NoDocker(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "bash", "-c", `die() { echo "$*"; exit 1; }; . ./composelib.sh; PATH=; need_compose`).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "docker is missing") {
		t.Errorf("got %v, %s; want docker named", err, out)
	}
}
