package pcr

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A pickle is a program for a stack machine, which can call anything. This
// reader knows the few operations that Python's protocols 3 to 5 make of an
// integer, of a list of integers and of a NumPy array of integers with one
// dimension. A global is only a name to it, and of calls it knows by name the
// four that make such an array; everything else is refused. It holds no more
// memory than a small multiple of the pickle.

// The values on the stack besides int64, bool, string, []byte and nil.
type (
	pickleMark   struct{}
	pickleGlobal string // "module name"
	pickleTuple  []any
	pickleList   struct{ ints []int64 }
	pickleDType  struct {
		signed bool
		size   int // bytes: 1, 2, 4 or 8
		order  binary.ByteOrder
	}
	pickleArray struct{ ints []int64 }
)

// The calls that are understood. NumPy 2 moved its modules from numpy.core to
// numpy._core.
const (
	callDType       pickleGlobal = "numpy dtype"
	callReconstruct pickleGlobal = "numpy.core.multiarray _reconstruct"
	callScalar      pickleGlobal = "numpy.core.multiarray scalar"
	callFromBuffer  pickleGlobal = "numpy.core.numeric _frombuffer"
)

// unpickler is the machine.
type unpickler struct {
	in    []byte
	at    int
	stack []any
	memo  map[uint32]any
	// budget is the bytes that may still be made of memoised values: these can
	// be used again and again.
	budget int
}

// parsePickleInts reads a list or an array.
func parsePickleInts(b []byte) ([]int64, error) {
	v, err := parsePickle(b)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *pickleList:
		return v.ints, nil
	case *pickleArray:
		return v.ints, nil
	}
	return nil, fmt.Errorf("%w: a pickle of something that is no list of integers", ErrDamaged)
}

// parsePickleInt reads an integer.
func parsePickleInt(b []byte) (int64, error) {
	v, err := parsePickle(b)
	if err != nil {
		return 0, err
	}
	if n, ok := v.(int64); ok {
		return n, nil
	}
	return 0, fmt.Errorf("%w: a pickle of something that is no integer", ErrDamaged)
}

func parsePickle(b []byte) (any, error) {
	u := &unpickler{in: b, memo: map[uint32]any{}, budget: 2*len(b) + 1024}
	for {
		op, err := u.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' {
			if len(u.stack) != 1 {
				return nil, u.bad("%d values are left at its end", len(u.stack))
			}
			return u.stack[0], nil
		}
		if err := u.step(op[0]); err != nil {
			return nil, err
		}
	}
}

func (u *unpickler) bad(format string, args ...any) error {
	return fmt.Errorf("%w: pickle, byte %d: %s", ErrDamaged, u.at, fmt.Sprintf(format, args...))
}

// take returns the next n bytes of the pickle.
func (u *unpickler) take(n uint64) ([]byte, error) {
	if n > uint64(len(u.in)-u.at) {
		return nil, u.bad("it ends early")
	}
	b := u.in[u.at:][:n]
	u.at += int(n)
	return b, nil
}

// number returns an unsigned number of n bytes.
func (u *unpickler) number(n uint64) (uint64, error) {
	b, err := u.take(n)
	if err != nil {
		return 0, err
	}
	var v uint64
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	return v, nil
}

// counted returns bytes whose number is written before them, in n bytes.
func (u *unpickler) counted(n uint64) ([]byte, error) {
	size, err := u.number(n)
	if err != nil {
		return nil, err
	}
	return u.take(size)
}

// line returns the bytes up to the end of the line.
func (u *unpickler) line() (string, error) {
	n := slices.Index(u.in[u.at:], '\n')
	if n < 0 {
		return "", u.bad("it ends early")
	}
	s := string(u.in[u.at:][:n])
	u.at += n + 1
	return s, nil
}

// spend takes n bytes of the budget.
func (u *unpickler) spend(n int) error {
	if u.budget -= n; u.budget < 0 {
		return u.bad("it makes more than it holds")
	}
	return nil
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

// pushed pushes what was read without an error.
func (u *unpickler) pushed(v any, err error) error {
	if err == nil {
		u.push(v)
	}
	return err
}

func (u *unpickler) pop() (any, error) {
	if len(u.stack) == 0 {
		return nil, u.bad("nothing is on the stack")
	}
	v := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	return v, nil
}

// top returns a copy of the uppermost n values and takes them off.
func (u *unpickler) top(n int) (pickleTuple, error) {
	if n > len(u.stack) {
		return nil, u.bad("%d values are wanted of %d", n, len(u.stack))
	}
	at := len(u.stack) - n
	t := pickleTuple(slices.Clone(u.stack[at:]))
	u.stack = u.stack[:at]
	return t, nil
}

// sinceMark returns the values above the uppermost mark and takes them and the
// mark off.
func (u *unpickler) sinceMark() (pickleTuple, error) {
	for n := 0; n < len(u.stack); n++ {
		if _, ok := u.stack[len(u.stack)-1-n].(pickleMark); !ok {
			continue
		}
		t, err := u.top(n)
		if err == nil {
			_, err = u.pop()
		}
		return t, err
	}
	return nil, u.bad("there is no mark")
}

// step carries out one operation; the names are those of Python's pickletools.
func (u *unpickler) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		v, err := u.number(1)
		if err == nil && (v < 2 || v > 5) {
			return u.bad("protocol %d", v)
		}
		return err
	case 0x95: // FRAME: the bytes of what follows, which is of no use here
		_, err := u.take(8)
		return err
	case '(': // MARK
		u.push(pickleMark{})
		return nil
	case 'N': // NONE
		u.push(nil)
		return nil
	case 0x88: // NEWTRUE
		u.push(true)
		return nil
	case 0x89: // NEWFALSE
		u.push(false)
		return nil
	case 0x98: // READONLY_BUFFER: marks the buffer on the stack as one that cannot be written
		return nil
	case 'c', 0x93:
		return u.global(op)
	case 'R', 'b':
		return u.call(op)
	case 'q', 'r', 0x94, 'h', 'j':
		return u.remember(op)
	case ']', 'a', 'e', 'l', ')', 0x85, 0x86, 0x87, 't':
		return u.collect(op)
	case 'K', 'M', 'J', 0x8a:
		return u.integer(op)
	}
	return u.bytes(op)
}

// integer pushes a number.
func (u *unpickler) integer(op byte) error {
	switch op {
	case 'K': // BININT1
		v, err := u.number(1)
		return u.pushed(int64(v), err)
	case 'M': // BININT2
		v, err := u.number(2)
		return u.pushed(int64(v), err)
	case 'J': // BININT
		v, err := u.number(4)
		return u.pushed(int64(int32(v)), err)
	}
	// LONG1: two's complement, as short as it can be
	b, err := u.counted(1)
	if err != nil {
		return err
	}
	if len(b) > 8 {
		return u.bad("an integer of %d bytes", len(b))
	}
	u.push(signExtended(b))
	return nil
}

// signExtended reads a little-endian two's complement number of up to 8 bytes.
func signExtended(b []byte) int64 {
	var v uint64
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	shift := 64 - 8*len(b)
	return int64(v<<shift) >> shift
}

// bytes pushes bytes or a string.
func (u *unpickler) bytes(op byte) error {
	switch op {
	case 'C': // SHORT_BINBYTES
		b, err := u.counted(1)
		return u.pushed(b, err)
	case 'B': // BINBYTES
		b, err := u.counted(4)
		return u.pushed(b, err)
	case 0x8e, 0x96: // BINBYTES8, BYTEARRAY8
		b, err := u.counted(8)
		return u.pushed(b, err)
	case 0x8c: // SHORT_BINUNICODE
		b, err := u.counted(1)
		return u.pushed(string(b), err)
	case 'X': // BINUNICODE
		b, err := u.counted(4)
		return u.pushed(string(b), err)
	}
	return u.bad("operation 0x%02x is not one of a list of integers", op)
}

// remember stores the uppermost value in the memo, or fetches one.
func (u *unpickler) remember(op byte) error {
	var key uint64
	var err error
	switch op {
	case 'q', 'h': // BINPUT, BINGET
		key, err = u.number(1)
	case 'r', 'j': // LONG_BINPUT, LONG_BINGET
		key, err = u.number(4)
	default: // MEMOIZE
		key = uint64(len(u.memo))
	}
	if err != nil {
		return err
	}
	if op == 'h' || op == 'j' {
		v, ok := u.memo[uint32(key)]
		if !ok {
			return u.bad("value %d is not known", key)
		}
		u.push(v)
		return nil
	}
	if len(u.stack) == 0 {
		return u.bad("nothing is on the stack")
	}
	u.memo[uint32(key)] = u.stack[len(u.stack)-1]
	return nil
}

// collect makes and fills tuples and lists.
func (u *unpickler) collect(op byte) error {
	switch op {
	case ']': // EMPTY_LIST
		u.push(&pickleList{})
		return nil
	case ')': // EMPTY_TUPLE
		u.push(pickleTuple{})
		return nil
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		t, err := u.top(int(op) - 0x84)
		return u.pushed(t, err)
	case 't': // TUPLE
		t, err := u.sinceMark()
		return u.pushed(t, err)
	}
	var items pickleTuple
	var err error
	if op == 'a' { // APPEND
		items, err = u.top(1)
	} else { // APPENDS, LIST
		items, err = u.sinceMark()
	}
	if err != nil {
		return err
	}
	if op == 'l' { // LIST
		u.push(&pickleList{})
	}
	if len(u.stack) == 0 {
		return u.bad("nothing is on the stack")
	}
	list, ok := u.stack[len(u.stack)-1].(*pickleList)
	if !ok {
		return u.bad("appending to something that is no list")
	}
	for _, item := range items {
		n, ok := item.(int64)
		if !ok {
			return u.bad("a list of something else than integers")
		}
		list.ints = append(list.ints, n)
	}
	return nil
}

// global pushes the name of a function or a type.
func (u *unpickler) global(op byte) error {
	module, name, err := u.globalName(op)
	if err != nil {
		return err
	}
	if err := u.spend(len(module) + len(name)); err != nil {
		return err
	}
	module = strings.Replace(module, "numpy._core.", "numpy.core.", 1)
	u.push(pickleGlobal(module + " " + name))
	return nil
}

func (u *unpickler) globalName(op byte) (module, name string, err error) {
	if op == 'c' { // GLOBAL
		if module, err = u.line(); err == nil {
			name, err = u.line()
		}
		return module, name, err
	}
	t, err := u.top(2) // STACK_GLOBAL
	if err != nil {
		return "", "", err
	}
	module, ok := t[0].(string)
	name, also := t[1].(string)
	if !ok || !also {
		return "", "", u.bad("a global without a name")
	}
	return module, name, nil
}

// call carries out REDUCE, the call of a function, and BUILD, which sets the
// state of an object, for those that are understood.
func (u *unpickler) call(op byte) error {
	t, err := u.top(2)
	if err != nil {
		return err
	}
	args, ok := t[1].(pickleTuple)
	if !ok {
		return u.bad("a call without a tuple of arguments")
	}
	if op == 'b' {
		return u.build(t[0], args)
	}
	name, ok := t[0].(pickleGlobal)
	if !ok {
		return u.bad("a call of something that is no function")
	}
	switch name {
	case callDType:
		return u.dtype(args)
	case callReconstruct:
		u.push(&pickleArray{})
		return nil
	case callScalar:
		return u.scalar(args)
	case callFromBuffer:
		return u.fromBuffer(args)
	}
	return u.bad("a call of %q, which nothing here makes", string(name[:min(len(name), 100)]))
}

// dtype makes a type of a name such as i8.
func (u *unpickler) dtype(args pickleTuple) error {
	if len(args) < 1 {
		return u.bad("a dtype without a name")
	}
	name, ok := args[0].(string)
	if !ok {
		return u.bad("a dtype without a name")
	}
	d := &pickleDType{order: binary.LittleEndian}
	if len(name) == 3 {
		if !d.setOrder(name[:1]) {
			return u.bad("the dtype %q", name)
		}
		name = name[1:]
	}
	switch name {
	case "i1", "i2", "i4", "i8":
		d.signed = true
	case "u1", "u2", "u4", "u8":
	default:
		return u.bad("a dtype that is none of integers")
	}
	d.size = int(name[1] - '0')
	u.push(d)
	return nil
}

// setOrder sets the order of bytes by NumPy's character for it.
func (d *pickleDType) setOrder(c string) bool {
	switch c {
	case "<", "=", "|":
		d.order = binary.LittleEndian
	case ">":
		d.order = binary.BigEndian
	default:
		return false
	}
	return true
}

// build sets the state of a dtype or of an array.
func (u *unpickler) build(object any, state pickleTuple) error {
	switch object := object.(type) {
	case *pickleDType: // (version, order of bytes, …)
		if len(state) < 2 {
			return u.bad("a dtype without its state")
		}
		order, ok := state[1].(string)
		if !ok || !object.setOrder(order) {
			return u.bad("a dtype of an unknown order of bytes")
		}
		u.push(object)
		return nil
	case *pickleArray: // (version, shape, dtype, order of dimensions, data)
		if len(state) != 5 {
			return u.bad("an array without its state")
		}
		ints, err := u.ints(state[4], state[2], state[1])
		if err != nil {
			return err
		}
		object.ints = ints
		u.push(object)
		return nil
	}
	return u.bad("the state of something that is no array")
}

// fromBuffer makes an array of (data, dtype, shape, order of dimensions).
func (u *unpickler) fromBuffer(args pickleTuple) error {
	if len(args) != 4 {
		return u.bad("an array without its parts")
	}
	ints, err := u.ints(args[0], args[1], args[2])
	return u.pushed(&pickleArray{ints: ints}, err)
}

// scalar makes an integer of (dtype, data).
func (u *unpickler) scalar(args pickleTuple) error {
	if len(args) != 2 {
		return u.bad("a number without its parts")
	}
	ints, err := u.ints(args[1], args[0], pickleTuple{int64(1)})
	if err != nil {
		return err
	}
	u.push(ints[0])
	return nil
}

// ints decodes the data of an array.
func (u *unpickler) ints(data, dtype, shape any) ([]int64, error) {
	b, ok := data.([]byte)
	d, also := dtype.(*pickleDType)
	dims, and := shape.(pickleTuple)
	if !ok || !also || !and || len(dims) != 1 {
		return nil, u.bad("an array that has not one dimension, integers and data")
	}
	n, ok := dims[0].(int64)
	if !ok || n < 0 || n != int64(len(b)/d.size) || len(b)%d.size != 0 {
		return nil, u.bad("an array whose data is not as long as it says")
	}
	if err := u.spend(len(b)); err != nil {
		return nil, err
	}
	out := make([]int64, n)
	for i := range out {
		v, ok := d.decode(b[i*d.size:][:d.size])
		if !ok {
			return nil, u.bad("a number over 2^63")
		}
		out[i] = v
	}
	return out, nil
}

// decode reads one element; ok is false where it does not fit.
func (d *pickleDType) decode(b []byte) (v int64, ok bool) {
	var w uint64
	switch d.size {
	case 1:
		w = uint64(b[0])
	case 2:
		w = uint64(d.order.Uint16(b))
	case 4:
		w = uint64(d.order.Uint32(b))
	default:
		w = d.order.Uint64(b)
	}
	if d.signed {
		shift := 64 - 8*d.size
		return int64(w<<shift) >> shift, true
	}
	return int64(w), w <= math.MaxInt64
}
