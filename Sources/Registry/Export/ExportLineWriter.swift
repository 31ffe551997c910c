/// Writes one JSON object, member by member.
struct ExportLineWriter {
    private var output: [UInt8] = [UInt8(ascii: "{")]
    /// Whether a member stands before the next in its object.
    private var hasMember = false

    private static let digits = Array("0123456789abcdef".utf8)

    consuming func finish() -> [UInt8] {
        var output = output
        output.append(UInt8(ascii: "}"))
        return output
    }

    mutating func integer(_ name: StaticString, _ value: Int64?) {
        guard let value else { return }
        member(name)
        output += String(value).utf8
    }

    /// - Parameter value: nothing that JSON escapes.
    mutating func text(_ name: StaticString, _ value: String?) {
        guard let value else { return }
        member(name)
        quote()
        output += value.utf8
        quote()
    }

    mutating func bytes(_ name: StaticString, _ value: [UInt8]?) {
        guard let value else { return }
        member(name)
        quote()
        output.reserveCapacity(output.count + 2 * value.count + 1)
        for byte in value {
            output.append(Self.digits[Int(byte >> 4)])
            output.append(Self.digits[Int(byte & 15)])
        }
        quote()
    }

    mutating func object(_ name: StaticString, _ body: (inout ExportLineWriter) -> Void) {
        member(name)
        braced(body)
    }

    mutating func list<Element>(
        _ name: StaticString, _ elements: [Element], _ body: (inout ExportLineWriter, Element) -> Void
    ) {
        member(name)
        output.append(UInt8(ascii: "["))
        for (index, element) in elements.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            braced { body(&$0, element) }
        }
        output.append(UInt8(ascii: "]"))
    }

    private mutating func braced(_ body: (inout ExportLineWriter) -> Void) {
        output.append(UInt8(ascii: "{"))
        hasMember = false
        body(&self)
        output.append(UInt8(ascii: "}"))
        hasMember = true
    }

    private mutating func member(_ name: StaticString) {
        if hasMember { output.append(UInt8(ascii: ",")) }
        hasMember = true
        quote()
        output += String(describing: name).utf8
        quote()
        output.append(UInt8(ascii: ":"))
    }

    private mutating func quote() { output.append(UInt8(ascii: "\"")) }
}
