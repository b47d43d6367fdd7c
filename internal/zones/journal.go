package zones

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// journalFile holds what the controller decided and saw, a line each. The last whole line has the state to go on from.
const journalFile = "zones.jsonl"

// journalLimit is the size in bytes from which the journal is begun anew, with its last line: years of rotations, or a
// day of a cluster in trouble.
const journalLimit = 8 << 20

// Entry is one line of the journal.
type Entry struct {
	At      time.Time `json:"at"`
	Notes   []Note    `json:"notes,omitempty"`
	Request string    `json:"request,omitempty"` // that is about to be sent
	Outcome string    `json:"outcome,omitempty"` // of the request in the line before
	State   *State    `json:"state"`
}

// Journal keeps the state over restarts. Without a folder it is in memory, and a restart begins with what the cluster
// says.
type Journal struct {
	dir  string
	file *os.File
	size int64
	line int // length of the last line
	last *Entry

	before, after func() // of each line, for tests in which the process dies there; nil does nothing
}

// OpenJournal reads the journal in dir; an empty dir keeps nothing. A last line that was cut off is dropped; the warning
// says so, or that the journal is of another cluster and begun anew.
func OpenJournal(dir, uuid string) (j *Journal, warning string, err error) {
	j = &Journal{dir: dir}
	if dir == "" {
		return j, "", nil
	}
	path := filepath.Join(dir, journalFile)
	whole := int64(0)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, "", err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if len(line) > 0 {
				warning = fmt.Sprintf("The last line of %s was cut off and is dropped.", path)
			}
			break
		}
		entry := &Entry{}
		if err := json.Unmarshal(line, entry); err != nil || entry.State == nil {
			warning = fmt.Sprintf("%s cannot be read from byte %d on; that is dropped.", path, whole)
			break
		}
		j.last, j.line, whole = entry, len(line), whole+int64(len(line))
	}
	if j.last != nil && j.last.State.Cluster != uuid {
		warning = fmt.Sprintf("%s is about another cluster and is begun anew.", path)
		j.last, whole = nil, 0
	}
	if err := file.Truncate(whole); err != nil {
		return nil, "", errors.Join(err, file.Close())
	}
	j.file, j.size = file, whole
	return j, warning, nil
}

// Last is the newest entry; nil where there is none.
func (j *Journal) Last() *Entry { return j.last }

// Append writes an entry and waits until it is safe on disk.
func (j *Journal) Append(e Entry) error {
	if j.before != nil {
		j.before()
	}
	if j.after != nil {
		defer j.after()
	}
	j.last = &e
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if j.size+int64(len(line)) > journalLimit || !j.inPlace() {
		return j.begin(line)
	}
	if err := j.write(line); err != nil {
		return err
	}
	j.size, j.line = j.size+int64(len(line)), len(line)
	return nil
}

// Try tells whether the next entry could be written, as far as that can be told without one: room for another like the
// last is taken, made safe and given back. A disk that has failed is noticed before something has to be written.
func (j *Journal) Try() error {
	switch {
	case j.file == nil:
		return nil
	case !j.inPlace():
		return fmt.Errorf("%s was removed", filepath.Join(j.dir, journalFile))
	}
	if err := j.write(bytes.Repeat([]byte{' '}, max(j.line, 1))); err != nil { // no line: whoever dies here has cut one off
		return err
	}
	return j.file.Truncate(j.size)
}

// write writes behind the last line and waits until that is safe. Of what was written in part only, on a disk that is
// full, nothing stays: the next line must not be joined to it.
func (j *Journal) write(line []byte) error {
	_, err := j.file.WriteAt(line, j.size)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return errors.Join(err, j.file.Truncate(j.size))
	}
	return nil
}

// inPlace tells whether the file is still where the next start looks for it. An open file goes on taking lines after it
// was removed, with its folder or without.
func (j *Journal) inPlace() bool {
	there, err := os.Stat(filepath.Join(j.dir, journalFile))
	if err != nil {
		return false
	}
	ours, err := j.file.Stat()
	return err == nil && os.SameFile(there, ours)
}

// begin replaces the journal by one with a single line; a crash leaves one or the other.
func (j *Journal) begin(line []byte) error {
	next, err := os.CreateTemp(j.dir, journalFile+".*")
	if err != nil {
		return err
	}
	_, err = next.Write(line)
	if err := errors.Join(err, next.Sync()); err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	if err := os.Rename(next.Name(), filepath.Join(j.dir, journalFile)); err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	before := j.file
	j.file, j.size, j.line = next, int64(len(line)), len(line)
	return before.Close()
}

// Close gives the file back.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
