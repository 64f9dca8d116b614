package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// found is a name that the scripts find out, or that follows from another setting.
var found = regexp.MustCompile(`^(STACK_.*|COMPOSE_PROJECT_NAME|WORKER_IMAGE|(PROMETHEUS|RABBITMQ|ZOOKEEPER|POSTGRES)_CONFIG|POSTGRES_FIRST|(ORCHESTRATOR|PERSDB|USERS|RIDES|RABBITMQ)_(GO|MEMORY)_MIB)$`)

// .env.example lists each setting that docker-compose.yml reads, and no setting that neither that file nor the scripts read.
func TestEnvExample_ListsTheSettings(t *testing.T) {
	read := func(pattern string) (text string) {
		t.Helper()
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: got %v, %v, want files", pattern, files, err)
		}
		for _, file := range files {
			part, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text += string(part)
		}
		return text
	}
	compose, example := read("../docker-compose.yml"), read("../.env.example")
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#([A-Z_]+)=`).FindAllStringSubmatch(example, -1) {
		listed[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+)`).FindAllStringSubmatch(compose, -1) {
		if !listed[m[1]] && !found.MatchString(m[1]) {
			t.Errorf("%s of docker-compose.yml is not in .env.example", m[1])
		}
	}
	readers := compose + read("*.sh")
	for name := range listed {
		if !regexp.MustCompile(`[$"{ ]` + name + `\b`).MatchString(readers) {
			t.Errorf("%s of .env.example is read nowhere", name)
		}
	}
	for name, parts := range map[string]int{"REQUEST_MEMORY_MIB": 3, "WORKER_ANSWER_MIB": 1} { // orchestrator, users, rides; launcher
		if got := strings.Count(compose, name+": ${"+name); got != parts || !listed[name] {
			t.Errorf("%s: %d parts have it, want %d; listed: %t", name, got, parts, listed[name])
		}
	}
}
