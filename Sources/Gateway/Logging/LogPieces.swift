internal import Bytes

/// Parts of lines that come again and again, one after the other in one array: writing one counts no reference.
struct LogPieces {
    private var text: [UInt8] = []
    private var ends = [0]

    /// Their indices count from 0.
    mutating func add(_ piece: String) {
        text += Array(piece.utf8)
        ends.append(text.count)
    }

    /// - Parameter omitted: octets at its end that are left out.
    func append(_ index: Int, without omitted: Int = 0, to line: inout ByteBuffer) {
        line.append(text.span.extracting(ends[index]..<ends[index + 1] - omitted))
    }
}

/// One such part that belongs to a connection, in place: its requests come far apart, and counting references to an array
/// that has left the cache meanwhile takes longer than all the rest of a line.
struct ConnectionPiece {
    private var text = InlineArray<40, UInt8>(repeating: 0)
    private var count = 0

    /// Nothing.
    init() {}

    /// - Parameter piece: of 40 octets at most.
    init(_ piece: String) {
        for octet in piece.utf8 {
            text[count] = octet
            count += 1
        }
    }

    func append(to line: inout ByteBuffer) {
        line.append(text.span.extracting(first: count))
    }
}
