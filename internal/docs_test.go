package internal

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pages are the documents of this repository.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/decisions/*.md", "../docs/runbooks/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) < 10 {
		t.Fatalf("only %d pages found", len(all))
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notWord = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// Links between pages lead somewhere, sections included.
func TestLinksInThePagesHold(t *testing.T) {
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(content), -1) {
			target, section, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue // elsewhere
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			info, err := os.Stat(file)
			if err != nil {
				t.Errorf("%s links to %s, which is not there", page, match[1])
				continue
			}
			if section == "" || info.IsDir() {
				continue
			}
			linked, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(linked))[section] {
				t.Errorf("%s links to %s, which has no such section", page, match[1])
			}
		}
	}
}

// anchors are the names of a page's sections, as links write them.
func anchors(page string) map[string]bool {
	found := make(map[string]bool)
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		name := notWord.ReplaceAllString(strings.ToLower(match[1]), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

// Every make target that a page names exists.
func TestMakeTargetsInThePagesExist(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)(?:`|^ {4})make ([a-z-]+)")
	for _, page := range pages(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range command.FindAllStringSubmatch(string(content), -1) {
			if !strings.Contains(string(makefile), "\n"+match[1]+":") {
				t.Errorf("%s names make %s, which is no target", page, match[1])
			}
		}
	}
}
