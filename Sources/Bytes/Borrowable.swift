/// A value of an object that one piece of code at a time borrows.
///
/// Swift checks at run time that nobody changes a property of an object while other code uses it. The check calls the
/// runtime for each access, unless the access is instantaneous. Each access to this property is: the value is moved
/// out, and moved back after its use. The protection remains: a second access while the value is borrowed ends the
/// process, even a second reader.
///
/// The owner has a computed property that borrows the value in `_read` and `_modify`. Each owner repeats these ten
/// lines: through an accessor of this type, the access to the owner's property would last and be checked.
public struct Borrowable<Value: ~Copyable>: ~Copyable {
    /// The value. Nil while it is borrowed.
    @usableFromInline var value: Value?

    @inlinable public init(_ value: consuming Value) {
        self.value = consume value
    }

    @inlinable @inline(__always)
    public mutating func borrow() -> Borrowed<Value> {
        var borrowed = Borrowed<Value>()
        swap(&borrowed.content, &value)
        return borrowed
    }

    /// Returns the borrowed value to its owner.
    @inlinable @inline(__always)
    public mutating func end(_ borrowed: inout Borrowed<Value>) {
        swap(&borrowed.content, &value)
    }
}

/// A borrowed value, for the duration of its use.
public struct Borrowed<Value: ~Copyable>: ~Copyable {
    @usableFromInline var content: Value?

    @inlinable @inline(__always)
    init() {}

    // Nil only if other code has borrowed it, and then nobody may continue.
    // swift-format-ignore: NeverForceUnwrap
    @inlinable @inline(__always)
    public var value: Value {
        _read { yield content! }
        _modify { yield &content! }
    }
}
