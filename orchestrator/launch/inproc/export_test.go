package inproc

// SetRemoveAll makes l remove directories by f. It is called before the first worker is removed.
func (l *Launcher) SetRemoveAll(f func(path string) error) { l.removeAll = f }
