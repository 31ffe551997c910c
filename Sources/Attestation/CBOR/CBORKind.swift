/// The kinds of item this module reads.
public enum CBORKind: Equatable, Sendable {
    case unsigned
    case negative
    case bytes
    case text
    case array
    case map
    /// `false`, `true` or `null`: nothing of Apple's has one, but an extension to come might, and skipping it is harmless.
    case simple

    /// What an item that begins with this byte is (RFC 8949 section 3: three bits of major type, five of additional
    /// information), or why it is refused.
    init(initial: UInt8) throws(CBORFault) {
        let information = initial & 0x1f
        // Reserved in every major type.
        guard !(28...30).contains(information) else { throw .reservedHead }
        if information == 31 {
            // Integers and tags have no indefinite form (RFC 8949 section 3.2); of major type 7 it is the break.
            switch initial >> 5 {
            case 0, 1, 6: throw .reservedHead
            default: throw .indefiniteLength
            }
        }
        switch initial >> 5 {
        case 0: self = .unsigned
        case 1: self = .negative
        case 2: self = .bytes
        case 3: self = .text
        case 4: self = .array
        case 5: self = .map
        case 7 where (20...22).contains(information): self = .simple
        default: throw .unsupportedType
        }
    }
}
