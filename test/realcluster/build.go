package realcluster

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sources are the launchers, and this file: the way they are built counts as much as what they are built from.
//
//go:embed java build.go
var sources embed.FS

// copyDependencies is pinned like everything else that is resolved, so that a cached run asks for nothing new.
const copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// launcher is a product made ready to start.
type launcher struct {
	java      string // the java program
	classPath string
	archive   string // the JVM's own form of the server's classes
	config    string // folder with the configuration that its plugins ship, where it has any
}

// Prepare gets the product ready to start: resolves its jars, compiles its launcher and records a class archive, unless
// the cache holds all that already for exactly these sources. Only the first call on a machine needs Maven and the
// network. Starting a cluster does the same; this is for doing it ahead.
func (p Product) Prepare(ctx context.Context) error {
	_, err := p.prepare(ctx)
	return err
}

func (p Product) prepare(ctx context.Context) (launcher, error) {
	home, err := findJava(p.minJava)
	if err != nil {
		return launcher{}, err
	}
	cache, err := cacheFolder()
	if err != nil {
		return launcher{}, err
	}
	files, sum, err := p.sourceFiles()
	if err != nil {
		return launcher{}, err
	}
	// Test binaries run side by side: one builds, the others wait for it.
	unlock, err := lock(filepath.Join(cache, p.Name()+".lock"), syscall.LOCK_EX)
	if err != nil {
		return launcher{}, err
	}
	defer unlock()

	folder := filepath.Join(cache, p.Name()+"-"+sum)
	if _, err := os.Stat(folder); err != nil {
		half, err := os.MkdirTemp(cache, p.Name()+"-half-")
		if err != nil {
			return launcher{}, err
		}
		defer func() { _ = os.RemoveAll(half) }() // renamed by then, where all went well
		if err := p.build(ctx, home, files, half); err != nil {
			return launcher{}, fmt.Errorf("build the launcher of %s: %w", p, err)
		}
		if err := os.Rename(half, folder); err != nil {
			return launcher{}, err
		}
	}
	jars, err := filepath.Glob(filepath.Join(folder, "jars", "*.jar"))
	if err != nil {
		return launcher{}, err
	}
	l := launcher{
		java:      filepath.Join(home, "bin", "java"),
		classPath: strings.Join(jars, string(os.PathListSeparator)), // the archive is valid for this very order
		archive:   filepath.Join(folder, "classes.jsa"),
		config:    filepath.Join(folder, pluginConfig),
	}
	if _, err := os.Stat(l.archive); err != nil {
		if err := p.recordArchive(ctx, l); err != nil {
			return launcher{}, fmt.Errorf("record the class archive of %s: %w", p, err)
		}
	}
	return l, nil
}

// recordArchive runs one node and has its JVM write down the classes it loaded, in the form it can map into memory next
// time: starting then costs 6 s of processor time instead of 10 for six nodes in one JVM, and most of that again for
// every process of a cluster with one per node. A JVM of another build ignores the file and starts as before.
func (p Product) recordArchive(ctx context.Context, l launcher) error {
	half := l.archive + ".half"
	defer func() { _ = os.Remove(half) }() // renamed by then, where all went well
	recording := l
	recording.archive = ""
	c, err := launch(ctx, Options{Product: p, Nodes: 1}.withDefaults(), recording, "-XX:ArchiveClassesAtExit="+half)
	if err != nil {
		return err
	}
	c.stop(2 * time.Minute) // the JVM writes the archive as it ends: 2 s, but much more on a busy machine
	return os.Rename(half, l.archive)
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
	jars, classes := filepath.Join(folder, "jars"), filepath.Join(folder, "classes")
	maven := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "--file", filepath.Join(folder, "java", p.Name(), "pom.xml"),
		copyDependencies, "-DincludeScope=runtime", "-DoutputDirectory="+jars)
	maven.Env = append(os.Environ(), "JAVA_HOME="+javaHome)
	if err := run(maven); err != nil {
		return err
	}
	if err := unpackPlugins(jars, filepath.Join(folder, pluginConfig)); err != nil {
		return err
	}
	compile := exec.CommandContext(ctx, filepath.Join(javaHome, "bin", "javac"), append([]string{
		"--release", strconv.Itoa(p.minJava), "-nowarn", "-proc:none", "-cp", filepath.Join(jars, "*"),
		"-d", classes,
	}, toCompile...)...)
	if err := run(compile); err != nil {
		return err
	}
	// A class archive needs a class path of jars only.
	return run(exec.CommandContext(ctx, filepath.Join(javaHome, "bin", "jar"),
		"--create", "--file", filepath.Join(jars, "launcher.jar"), "-C", classes, "."))
}

// pluginConfig is the folder of a prepared product with the configuration that its plugins ship.
const pluginConfig = "plugin-config"

// unpackPlugins turns the plugins among the jars, which are published as archives, into jars beside the others and
// configuration files. What a plugin brings a second time under the same name is the same file.
func unpackPlugins(jars, config string) error {
	plugins, err := filepath.Glob(filepath.Join(jars, "*.zip"))
	if err != nil {
		return err
	}
	for _, name := range plugins {
		if err := unpackPlugin(name, jars, config); err != nil {
			return fmt.Errorf("unpack %s: %w", filepath.Base(name), err)
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func unpackPlugin(name, jars, config string) error {
	archive, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer func() { _ = archive.Close() }() // it was only read
	for _, entry := range archive.File {
		var folder string
		switch {
		case path.Ext(entry.Name) == ".jar" && path.Dir(entry.Name) == ".":
			folder = jars
		case path.Ext(entry.Name) == ".yml" && path.Dir(entry.Name) == "config":
			folder = config
		default:
			continue // its descriptor and tools
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		packed, err := entry.Open()
		if err != nil {
			return err
		}
		content, err := io.ReadAll(packed)
		packed.Close()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, path.Base(entry.Name)), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sourceFiles lists the embedded files the product's launcher is built from, and a short hash over them.
func (p Product) sourceFiles() ([]string, string, error) {
	folders := []string{"build.go", "java/common", "java/" + p.Name()}
	if p.shared != "" {
		folders = append(folders, "java/"+p.shared)
	}
	var files []string
	sum := sha256.New()
	fmt.Fprintln(sum, p.minJava)
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
