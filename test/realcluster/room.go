package realcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// basePrefix starts the name of every cluster's folder.
const basePrefix = "shardonnay-"

// newBase makes the folder for everything a cluster writes, held until release is called or this process ends. Folders
// that ended processes have left behind are removed first.
func newBase(p Product) (base string, release func(), err error) {
	parent := baseParent()
	cache, err := cacheFolder()
	if err != nil {
		return "", nil, err
	}
	// Without this lock a folder could be taken for a left-over between being made and being held.
	unlock, err := lock(filepath.Join(cache, "folders.lock"), syscall.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	folders, err := filepath.Glob(filepath.Join(parent, basePrefix+"*", "held"))
	if err != nil {
		return "", nil, err
	}
	for _, held := range folders {
		if drop, err := lock(held, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			_ = os.RemoveAll(filepath.Dir(held)) // somebody else's, perhaps: then it stays
			drop()
		}
	}
	if base, err = os.MkdirTemp(parent, basePrefix+p.Name()+"-"); err != nil {
		return "", nil, err
	}
	release, err = lock(filepath.Join(base, "held"), syscall.LOCK_EX)
	return base, release, err
}

// baseParent is where clusters write: in memory where the system offers room for that, else the folder for temporary
// files. Servers wait for the disk at every change of the cluster state, each node for itself; creating 24 indices on
// six nodes took 20 s on a slow disk and 5 s in memory.
func baseParent() string {
	const memory, room = "/dev/shm", 2 << 30 // a cluster of the tests needs some 200 MB
	var free syscall.Statfs_t
	if err := syscall.Statfs(memory, &free); err == nil && free.Bavail*uint64(free.Bsize) >= room {
		return memory
	}
	return os.TempDir()
}

// lock takes a lock on the file (how: syscall.LOCK_*), held until unlock is called or the process ends.
func lock(name string, how int) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
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

// freePorts finds n consecutive ports of 127.0.0.1 on which nothing listens. They lie below the range from which
// systems take the local ports of outgoing connections, so that they are still free when a node restarts.
func freePorts(n int) ([]int, error) {
	const lowest, highest = 15_000, 32_000
search:
	for range 100 {
		base := lowest + rand.IntN(highest-lowest-n)
		ports := make([]int, n)
		for i := range ports {
			ports[i] = base + i
			listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(ports[i]))
			if err != nil {
				continue search
			}
			listener.Close()
		}
		return ports, nil
	}
	return nil, fmt.Errorf("no %d consecutive free ports between %d and %d", n, lowest, highest)
}
