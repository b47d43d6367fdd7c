package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test . -run TestDocumentIsCurrent -update

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

const documentFile = "../../docs/configuration.md"

const documentHeader = `# Configuration

<!-- Generated from configs/shardonnay.yaml by "go generate ./internal/config"; edit there. -->

One YAML file, given with ` + "`--config`" + `; over it the environment, over that the flags of a command. The file may be missing or
hold only what differs from the defaults below, which are those of [configs/shardonnay.yaml](../configs/shardonnay.yaml).

- **Environment**: ` + "`SHARDONNAY_`" + ` and the key in capitals with underscores for dots: ` + "`SHARDONNAY_LIMITS_IN_FLIGHT=2`" + `. Lists are
  separated by commas. An empty variable counts as not set. A variable that begins like a section and names no key is
  refused; others, such as those Kubernetes adds for a Service, are left alone.
- **Secrets** are never written into the file: name a file that holds one (` + "`connection.password_file`, `connection.api_key_file`,\n  `http.token_file`" + `) or set ` + "`SHARDONNAY_CONNECTION_PASSWORD`, `SHARDONNAY_CONNECTION_API_KEY` or `SHARDONNAY_HTTP_TOKEN`" + `.
- **Faults**: an unknown key, a value of the wrong kind or an impossible one, a secret file that cannot be read. All of them are
  named in one message, with their line, and the exit code is 2.
- **Changes** of the file, of a secret file or of a certificate take effect without a restart, and so does SIGHUP; in Kubernetes
  a changed ConfigMap or Secret is enough. Keys marked *restart* wait for the next start. A faulty file is refused as a
  whole: the daemon goes on with what it has, logs the faults and sets ` + "`shardonnay_config_reload_success`" + ` to 0.
- **Units**: durations as 30s, 10m, 2h, 7d; sizes as 20gb, in powers of 1024; ratios from 0 to 1, or with a per cent sign.

`

// document renders docs/configuration.md from the comments of the reference file.
func document(comments map[string]string) string {
	prose := func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(text, "# "), "\n# ", " "), "\n#", "")
	}
	var text strings.Builder
	text.WriteString(documentHeader)
	section := ""
	for _, k := range keys {
		if of, _, _ := strings.Cut(k.name, "."); of != section {
			section = of
			fmt.Fprintf(&text, "## %s\n\n", section)
			if sections[section] {
				text.WriteString(prose(comments[section]) + "\n\n")
			}
		}
		match := comment.FindStringSubmatch(comments[k.name])
		if match == nil {
			continue // TestReferenceFileExplainsEveryKey says so
		}
		why := prose(strings.TrimSuffix(comments[k.name], "\n# ["+match[1]+"]"))
		fmt.Fprintf(&text, "### %s\n\n%s\n\n*%s*\n\n", k.name, why, match[1])
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func TestDocumentIsCurrent(t *testing.T) {
	got := document(comments(t))
	if *update {
		if err := os.WriteFile(documentFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not current; run go generate ./internal/config:\n%s", documentFile, diff)
	}
}

// Every key and variable that a page names exists.
func TestKeysInThePagesExist(t *testing.T) {
	key := regexp.MustCompile("`([a-z]+\\.[a-z_.]+)[`:=]")
	variable := regexp.MustCompile(`\b` + envPrefix + `[A-Z_]+`)
	isKey := func(name string) bool {
		return sections[name] || secretKeys[name] != "" || slices.ContainsFunc(keys, func(k keyInfo) bool { return k.name == name })
	}
	seen := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/decisions/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			content, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range key.FindAllStringSubmatch(string(content), -1) {
				if section, _, _ := strings.Cut(match[1], "."); sections[section] && !strings.HasSuffix(match[1], ".go") {
					seen++
					if !isKey(match[1]) {
						t.Errorf("%s names %s, which is no key", page, match[1])
					}
				}
			}
			for _, name := range variable.FindAllString(string(content), -1) {
				known := name == envPrefix || slices.ContainsFunc(keys, func(k keyInfo) bool { return envName(k.name) == name })
				for secret := range secretKeys {
					known = known || envName(secret) == name
				}
				seen++
				if !known {
					t.Errorf("%s names %s, which sets no key", page, name)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d keys and variables found", seen)
	}
}
