package mover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// stateFile is one JSON file in state.dir, always whole. Its zero path keeps the state in memory.
type stateFile struct {
	name string // of the file
	what string // it holds, for people
	lost string // what losing it means, for people

	path string
}

// open reads the file in a folder, which is made where it is missing, into content; an empty folder's name keeps the state
// in memory. A file that cannot be understood, or that is not valid once read, is put aside, content may be half filled
// then and is for the caller to reset; the warning says so.
func (f *stateFile) open(dir string, content any, valid func() bool) (warning string, err error) {
	if dir == "" {
		return "", nil
	}
	failed := func(err error) error {
		return &cluster.Error{
			Class: cluster.Invalid, Op: "open " + f.what, What: f.path, Err: err,
			Hint: "Make state.dir a folder that this user can write to",
		}
	}
	f.path = filepath.Join(dir, f.name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", failed(err)
	}
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", failed(err)
	}
	if err := json.Unmarshal(text, content); err != nil || !valid() {
		aside := f.path + ".broken"
		if err := os.Rename(f.path, aside); err != nil {
			return "", failed(err)
		}
		return fmt.Sprintf("%s %s could not be read and is now %s; %s", f.what, f.path, aside, f.lost), nil
	}
	return "", nil
}

// save writes the file as a whole, so that a crash leaves the old one or the new one.
func (f *stateFile) save(content any) error {
	if f.path == "" {
		return nil
	}
	failed := func(err error) error {
		return &cluster.Error{
			Class: cluster.Invalid, Op: "write " + f.what, What: f.path, Err: err, Hint: "Make room on the disk and check the permissions of state.dir",
		}
	}
	text, err := json.Marshal(content)
	if err != nil {
		return failed(err)
	}
	file, err := os.CreateTemp(filepath.Dir(f.path), f.name+".*")
	if err != nil {
		return failed(err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), f.path)
	}
	if err != nil {
		return failed(errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}
