package realcluster

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// findJava returns the home folder of the oldest JDK on this machine whose feature version is at least min: the
// servers were built for a certain Java, and a much newer one has dropped things they use. $JAVA21_HOME, where set,
// comes first for everything that needs 21 or newer.
func findJava(min int) (string, error) {
	if home := os.Getenv("JAVA21_HOME"); home != "" && min >= 21 {
		if v := javaVersion(home); v < min {
			return "", fmt.Errorf("JAVA21_HOME=%s holds no JDK of version %d or newer. Point it at one, or unset it", home, min)
		}
		return home, nil
	}
	homes, _ := filepath.Glob("/usr/lib/jvm/*")
	homes = append(homes, os.Getenv("JAVA21_HOME"), os.Getenv("JAVA_HOME"))
	if javac, err := exec.LookPath("javac"); err == nil {
		if real, err := filepath.EvalSymlinks(javac); err == nil {
			homes = append(homes, filepath.Dir(filepath.Dir(real)))
		}
	}
	best, bestVersion := "", 0
	for _, home := range homes {
		if v := javaVersion(home); v >= min && (best == "" || v < bestVersion) {
			best, bestVersion = home, v
		}
	}
	if best == "" {
		return "", fmt.Errorf("no JDK %d or newer in JAVA21_HOME, JAVA_HOME, PATH or /usr/lib/jvm. Install one", min)
	}
	return best, nil
}

// javaVersion is the feature version (17, 21, ...) of the JDK in home, 0 where there is none: a JDK has a compiler and
// a file named release with a line JAVA_VERSION="17.0.15".
func javaVersion(home string) int {
	if _, err := os.Stat(filepath.Join(home, "bin", "javac")); home == "" || err != nil {
		return 0
	}
	file, err := os.Open(filepath.Join(home, "release"))
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "JAVA_VERSION="); found {
			feature, _, _ := strings.Cut(strings.Trim(text, `"`), ".")
			v, _ := strconv.Atoi(feature)
			return v
		}
	}
	return 0
}
