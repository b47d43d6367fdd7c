package realcluster

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"syscall"
)

//go:embed java
var sources embed.FS

// copyDependencies is pinned like everything else that is resolved, so that a cached run asks for nothing new.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// Launcher is a product made ready to start: jars resolved, launcher compiled.
type Launcher struct {
	Java      string // the java program
	ClassPath string
}

// Prepare resolves the product's jars and compiles its launcher, unless the cache holds them already for exactly these
// sources. Only the first call on a machine needs Maven and the network.
func (p Product) Prepare(ctx context.Context) (Launcher, error) {
	home, err := findJava(p.minJava)
	if err != nil {
		return Launcher{}, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return Launcher{}, err
	}
	files, sum, err := p.sourceFiles()
	if err != nil {
		return Launcher{}, err
	}
	folder := filepath.Join(cache, p.Name()+"-"+sum)
	launcher := Launcher{
		Java:      filepath.Join(home, "bin", "java"),
		ClassPath: filepath.Join(folder, "classes") + string(os.PathListSeparator) + filepath.Join(folder, "jars", "*"),
	}

	// Test binaries run side by side: one builds, the others wait for it.
	unlock, err := lock(filepath.Join(cache, p.Name()+".lock"))
	if err != nil {
		return Launcher{}, err
	}
	defer unlock()
	if _, err := os.Stat(folder); err == nil {
		return launcher, nil
	}
	half, err := os.MkdirTemp(cache, p.Name()+"-half-")
	if err != nil {
		return Launcher{}, err
	}
	defer os.RemoveAll(half)
	if err := p.build(ctx, home, files, half); err != nil {
		return Launcher{}, fmt.Errorf("build the launcher of %s: %w", p, err)
	}
	return launcher, os.Rename(half, folder)
}

// build fills folder with sources, jars and classes.
func (p Product) build(ctx context.Context, javaHome string, files []string, folder string) error {
	var toCompile []string
	for _, name := range files {
		text, err := sources.ReadFile(name)
		if err != nil {
			return err
		}
		target := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, text, 0o644); err != nil {
			return err
		}
		if path.Ext(name) == ".java" {
			toCompile = append(toCompile, target)
		}
	}
	jars := filepath.Join(folder, "jars")
	maven := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "--file", filepath.Join(folder, "java", p.Name(), "pom.xml"),
		copyDependencies, "-DincludeScope=runtime", "-DoutputDirectory="+jars)
	maven.Env = append(os.Environ(), "JAVA_HOME="+javaHome)
	if err := run(maven); err != nil {
		return err
	}
	compile := exec.CommandContext(ctx, filepath.Join(javaHome, "bin", "javac"), append([]string{
		"--release", strconv.Itoa(p.minJava), "-nowarn", "-proc:none", "-cp", filepath.Join(jars, "*"),
		"-d", filepath.Join(folder, "classes"),
	}, toCompile...)...)
	return run(compile)
}

// sourceFiles lists the embedded files the product's launcher is built from, and a short hash over them.
func (p Product) sourceFiles() ([]string, string, error) {
	folders := []string{"java/common", "java/" + p.Name()}
	if p.shared != "" {
		folders = append(folders, "java/"+p.shared)
	}
	var files []string
	sum := sha256.New()
	fmt.Fprintln(sum, copyDependencies, p.minJava)
	for _, folder := range folders {
		err := fs.WalkDir(sources, folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := sources.ReadFile(name)
			fmt.Fprintln(sum, name, len(text))
			sum.Write(text)
			files = append(files, name)
			return err
		})
		if err != nil {
			return nil, "", err
		}
	}
	return files, fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

// cacheFolder is where launchers are kept between runs.
func cacheFolder() (string, error) {
	folder := os.Getenv("SHARDONNAY_TEST_CACHE")
	if folder == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("%w. Set SHARDONNAY_TEST_CACHE to a folder for the test servers", err)
		}
		folder = filepath.Join(user, "shardonnay", "realcluster")
	}
	return folder, os.MkdirAll(folder, 0o755)
}

// lock holds an exclusive lock on the file until unlock is called or the process ends.
func lock(name string) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { file.Close() }, nil
}

// run is cmd.Run with the command's output in the error.
func run(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%w. Run scripts/install-deps.sh test", err)
		}
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, output)
	}
	return nil
}
