/// Does what changes a value, within a macro's argument: there the value itself cannot be changed.
func on<Value, Result>(_ value: inout Value, _ change: (inout Value) -> Result) -> Result { change(&value) }
