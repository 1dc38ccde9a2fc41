package toml

// Convert toml value to marshal map, using marshal type
func (d *Decoder) valueFromMap(mtype reflect.Type, tval map[string]any) (reflect.Value, error) {
	mval := reflect.MakeMap(mtype)
	return mval, nil
}

// Convert toml value to marshal primitive slice, using marshal type
func (d *Decoder) valueFromSlice(mtype reflect.Type, tval []any) (reflect.Value, error) {
	mval := reflect.MakeSlice(mtype, len(tval), len(tval))
	for i := 0; i < len(tval); i++ {
		val, err := d.valueFromToml(mtype.Elem(), tval[i], nil)
		if err != nil {
			return mval, err
		}
		mval.Index(i).Set(val)
	}
	return mval, nil
}

// Convert toml value to marshal value, using marshal type. When mval1 is non-nil
// and the given type is a struct value, merge fields into it.
func (d *Decoder) valueFromToml(mtype reflect.Type, tval any, mval1 *reflect.Value) (reflect.Value, error) {
	switch t := tval.(type) {
	case *Tree:
		return d.valueFromTree(mtype, t, mval1)
	}
	return reflect.ValueOf(nil), nil
}
