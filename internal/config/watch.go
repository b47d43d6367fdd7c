package config

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/pflag"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// quiet is how long no file may change before they are read: an editor writes in several steps, Kubernetes swaps a
// folder behind a link.
const quiet = 200 * time.Millisecond

// Watch reads the configuration again, from the same file, environment and flags, whenever the process gets a SIGHUP or
// one of the files behind current changes: the file itself, those with secrets, those with certificates. It calls apply
// with a configuration that is in order (for a changed file only if something in it changed, for a SIGHUP always), and
// failed with the fault otherwise; what was applied last stays in force then. Calls never overlap. Watch returns when
// ctx ends.
func Watch(ctx context.Context, path string, flags *pflag.FlagSet, current Config, apply func(Config), failed func(error)) {
	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP)
	defer signal.Stop(hangUp)
	w := watch{path: path, flags: flags, current: current, apply: apply, failed: failed}
	w.run(ctx, hangUp)
}

type watch struct {
	path    string
	flags   *pflag.FlagSet
	current Config            // applied last
	files   map[string]string // content of the certificate files when it was
	fault   string            // reported last, so that a file left faulty is reported once
	apply   func(Config)
	failed  func(error)
}

func (w *watch) run(ctx context.Context, hangUp <-chan os.Signal) {
	var changed chan fsnotify.Event
	var lost chan error
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		changed, lost = watcher.Events, watcher.Errors
	} else {
		w.failed(&cluster.Error{
			Class: cluster.Internal, Op: "watch the configuration", What: w.path, Err: err,
			Hint: "Send SIGHUP after a change until the system allows more file watches (fs.inotify.max_user_instances)",
		})
	}
	w.files = certificates(&w.current)
	w.follow(watcher)
	w.reload(false) // it may have changed since it was loaded
	settled := time.NewTimer(0)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangUp:
			w.reload(true)
		case <-changed:
			settled.Reset(quiet)
			continue
		case <-lost: //nolint:errcheck // whatever it is, events may have been dropped: look
			settled.Reset(quiet)
			continue
		case <-settled.C:
			w.reload(false)
		}
		w.follow(watcher) // a link may point elsewhere now, another secret file may be named
	}
}

// reload reads everything anew. always tells that the caller waits for an answer, changed or not.
func (w *watch) reload(always bool) {
	next, err := Load(w.path, w.flags)
	if err != nil {
		if always || err.Error() != w.fault {
			w.failed(err)
		}
		w.fault = err.Error()
		return
	}
	w.fault = ""
	files := certificates(&next)
	if always || !reflect.DeepEqual(next, w.current) || !reflect.DeepEqual(files, w.files) {
		w.current, w.files = next, files
		w.apply(next)
	}
}

// certificates reads the files that the client reads itself: a change of theirs is a change of the configuration.
func certificates(c *Config) map[string]string {
	files := make(map[string]string)
	for _, file := range []string{c.Connection.CAFile, c.Connection.ClientCertFile, c.Connection.ClientKeyFile} {
		if content, err := os.ReadFile(file); err == nil {
			files[file] = string(content)
		}
	}
	return files
}

// follow watches the folders of all files concerned. Folders, since a file that is replaced is another file, under its
// own name and under the one a link leads to.
func (w *watch) follow(watcher *fsnotify.Watcher) {
	if watcher == nil {
		return
	}
	c := &w.current.Connection
	for _, file := range []string{
		w.path, c.PasswordFile, c.APIKeyFile, c.CAFile, c.ClientCertFile, c.ClientKeyFile, w.current.HTTP.TokenFile,
	} {
		if file == "" {
			continue
		}
		folders := []string{filepath.Dir(file)}
		if target, err := filepath.EvalSymlinks(file); err == nil {
			folders = append(folders, filepath.Dir(target))
		}
		for _, folder := range folders {
			if err := watcher.Add(folder); err != nil && !os.IsNotExist(err) { // adding twice is adding once
				w.failed(&cluster.Error{
					Class: cluster.Invalid, Op: "watch the configuration", What: folder, Err: err,
					Hint: "Make the folder readable, or send SIGHUP after a change",
				})
			}
		}
	}
}
