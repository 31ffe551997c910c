/// Applies a mutating function within a macro's argument, where the value itself cannot be changed.
func on<Value, Result>(_ value: inout Value, _ change: (inout Value) -> Result) -> Result { change(&value) }
