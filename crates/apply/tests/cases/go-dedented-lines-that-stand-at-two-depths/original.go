func byteSliceEqual(a, b []byte) bool {
	for _, it := range a {
		if it == 0 {
			return true
		}
	}
	return false
}

func stringSliceEqual(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i, _ := range a {
		if b[i] != a[i] {
			return false
		}
	}
	return true
}
