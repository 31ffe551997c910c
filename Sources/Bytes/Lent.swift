/// A value that an object keeps and lends to whoever works on it, one at a time.
///
/// Swift checks at run time that nobody changes a property of an object while another uses it, with a call to the runtime for each
/// access, unless no access lasts. One to this property never does: the value is moved out, and back when the work on it
/// is done. What the check is for is kept: while the value is lent, whoever asks for it too ends the process, a reader
/// beside a reader included. The owner has a computed property over it, which lends in `_read` and `_modify`.
/// Each owner writes these ten lines anew: from an accessor of this type the access to the owner's property would last, and be checked.
public struct Lent<Value: ~Copyable>: ~Copyable {
    /// Nil while it is lent.
    @usableFromInline var value: Value?

    @inlinable public init(_ value: consuming Value) {
        self.value = consume value
    }

    @inlinable @inline(__always)
    public mutating func lend() -> Loan<Value> {
        var loan = Loan<Value>()
        swap(&loan.content, &value)
        return loan
    }

    /// Takes back what was lent.
    @inlinable @inline(__always)
    public mutating func end(_ loan: inout Loan<Value>) {
        swap(&loan.content, &value)
    }
}

/// What was lent, for as long as somebody works on it.
public struct Loan<Value: ~Copyable>: ~Copyable {
    @usableFromInline var content: Value?

    @inlinable @inline(__always)
    init() {}

    // Nil only if somebody else has it, and then nobody may go on.
    // swift-format-ignore: NeverForceUnwrap
    @inlinable @inline(__always)
    public var value: Value {
        _read { yield content! }
        _modify { yield &content! }
    }
}
