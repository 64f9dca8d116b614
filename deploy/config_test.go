package deploy_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"testing"
)

// configs are the variables with the checksums of the files that a service has mounted.
var configs = map[string]string{"rabbitmq": "RABBITMQ_CONFIG", "zookeeper": "ZOOKEEPER_CONFIG", "postgres": "POSTGRES_CONFIG", "postgres1": "POSTGRES_CONFIG", "postgres2": "POSTGRES_CONFIG"}

// A file that is changed gives the containers that have it mounted another label, so that compose replaces these, and only these.
func TestConfig_ChangedFileChangesTheLabel(t *testing.T) {
	t.Parallel()
	s, h := newStack(t), newClusterHost(t)
	s.write(filepath.Join(s.root, ".stack", "ours", "images"), "RIDESHARE_IMAGE=one\n")
	for _, test := range []struct {
		env     func() string
		changed map[string]string // the variable for each file
	}{
		{
			env: func() string { s.run(nil, "compose", "up", "-d", "all"); return s.read(filepath.Join(s.engine, "env")) },
			changed: map[string]string{
				filepath.Join(s.root, "deploy", "rabbitmq", "rabbitmq.conf"): "RABBITMQ_CONFIG", filepath.Join(s.root, "deploy", "rabbitmq", "definitions.json"): "RABBITMQ_CONFIG",
				filepath.Join(s.root, "deploy", "zookeeper", "zoo.cfg"): "ZOOKEEPER_CONFIG", filepath.Join(s.root, "deploy", "postgres", "start.sh"): "POSTGRES_CONFIG",
			},
		},
		{
			env: func() string { h.do("ps"); return h.read(filepath.Join(h.engine, "env")) },
			changed: map[string]string{
				filepath.Join(h.dir, "rabbitmq.conf"): "RABBITMQ_CONFIG", filepath.Join(h.root, "deploy", "cluster", "rabbitmq.sh"): "RABBITMQ_CONFIG",
				filepath.Join(h.dir, "zoo.cfg"): "ZOOKEEPER_CONFIG", filepath.Join(h.root, "deploy", "postgres", "start.sh"): "POSTGRES_CONFIG",
			},
		},
	} {
		sums := func() map[string]string {
			all := map[string]string{}
			for _, m := range regexp.MustCompile(`(?m)^(\w+_CONFIG)=(\d+)$`).FindAllStringSubmatch(test.env(), -1) {
				all[m[1]] = m[2]
			}
			return all
		}
		before := sums()
		for file, variable := range test.changed {
			s.write(file, s.read(file)+"# changed\n")
			after := sums()
			for _, name := range configs {
				if after[name] == "" || (after[name] != before[name]) != (name == variable) {
					t.Errorf("after a change of %s: %s is %q, and was %q", file, name, after[name], before[name])
				}
			}
			before = after
		}
	}
}

// Each service that has a file of ours mounted has the label with its checksum.
func TestConfig_Labels(t *testing.T) {
	t.Parallel()
	for path, lack := range map[string]int{"../docker-compose.yml": 4, "cluster/compose.yml": 3} {
		all := readCompose(t, path).Services
		for name, variable := range configs {
			if all[name].Labels["rideshare.config"] == "${"+variable+"-}" {
				lack--
			}
		}
		if lack != 0 {
			t.Errorf("%s: %d services lack the label with the checksum of their files", path, lack)
		}
	}
}

// Each network and volume has a name of its own project: for one without a name, docker-compose 1.29 takes that of another project
// whose name differs only by - and _.
func TestConfig_Names(t *testing.T) {
	t.Parallel()
	for path, hint := range map[string]string{"../docker-compose.yml": "use make up", "cluster/compose.yml": "use cluster.sh"} {
		file := readCompose(t, path)
		all := maps.Clone(file.Volumes)
		maps.Copy(all, file.Networks)
		if len(all) < 5 {
			t.Errorf("%s: got networks and volumes %v, want more", path, all)
		}
		for name, got := range all {
			if want := "${COMPOSE_PROJECT_NAME:?" + hint + "}_" + name; got.Name != want && got.Name != "${STACK_NETWORK:?"+hint+"}" {
				t.Errorf("%s: got the name %q of %s, want %q", path, got.Name, name, want)
			}
		}
	}
}
