/// What others signed in the same fields: all members of Signature-Input and Signature but ours.
///
/// A proof is for the gateway. What the gateway has judged, or has let pass unjudged on a route that demands no proof,
/// must not reach a service that might believe it; a signature under another label is none of the gateway's business.
public enum ForeignMembers {
    /// Appends the members of one line of the field, as they stand, separated by `, `.
    ///
    /// - Parameter line: the value of one line; one that is no dictionary of structured fields has no members.
    public static func append(of line: Span<UInt8>, to bytes: inout [UInt8]) {
        let before = bytes.count
        do throws(Malformation) {
            var parser = try FieldParser(line)
            while let label = try parser.nextMember() {
                try parser.skip(try parser.memberValue())
                guard !line.extracting(label).isSame(as: ProofName.label) else { continue }
                if bytes.count > before {
                    bytes.append(FieldByte.comma)
                    bytes.append(FieldByte.space)
                }
                bytes.append(line.extracting(label.lowerBound..<parser.position))
            }
        } catch {
            bytes.removeLast(bytes.count - before)
        }
    }
}
