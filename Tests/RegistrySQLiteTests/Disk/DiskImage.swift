import Chance

/// One file of a disk that can lose power: what the kernel has of it, and what would be there after a cut.
struct DiskImage {
    /// What reads see.
    private(set) var content: [UInt8]
    /// What a sync has made sure of.
    private var platter: [UInt8]
    /// What was done to the content since, in order.
    private var pending: [Change] = []

    private enum Change {
        case write([UInt8], at: Int)
        case truncate(Int)
    }

    /// What SQLite counts on being written whole or not at all: nothing larger.
    static let sector = 512

    init(_ content: [UInt8]) {
        self.content = content
        platter = content
    }

    mutating func write(_ bytes: [UInt8], at offset: Int) {
        Self.write(bytes, at: offset, to: &content)
        pending.append(.write(bytes, at: offset))
    }

    mutating func truncate(to size: Int) {
        Self.truncate(&content, to: size)
        pending.append(.truncate(size))
    }

    mutating func sync() {
        for change in pending { Self.apply(change, to: &platter) }
        pending.removeAll()
    }

    /// A sync that has failed, as Linux has it: the pages count as clean from now on, and are still read. Nothing brings them to
    /// the disk any more but writing them again.
    mutating func failToSync() {
        pending.removeAll()
    }

    /// The power fails. - Returns: what is found when it is back: of what was not synced nothing, all, or any part.
    func cut(_ generator: inout SeededGenerator) -> [UInt8] {
        var left = platter
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: break
        case 1: for change in pending { Self.apply(change, to: &left) }
        case 2:
            // In order, up to some point.
            for change in pending.prefix(Int.random(in: 0...pending.count, using: &generator)) {
                Self.apply(change, to: &left)
            }
        case let share:
            // Any of it, each sector for itself.
            for change in pending { tear(change, keeping: [0.1, 0.5, 0.9][share - 3], &left, &generator) }
        }
        return left
    }

    private func tear(
        _ change: Change, keeping share: Double, _ left: inout [UInt8], _ generator: inout SeededGenerator
    ) {
        guard case .write(let bytes, let offset) = change else {
            if Double.random(in: 0..<1, using: &generator) < share { Self.apply(change, to: &left) }
            return
        }
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, ((offset + start) / Self.sector + 1) * Self.sector - offset)
            let chance = Double.random(in: 0..<1, using: &generator)
            if chance < share * 0.95 {
                Self.write(Array(bytes[start..<end]), at: offset + start, to: &left)
            } else if chance < share {
                // The sector that was being written.
                let garbage = (start..<end).map { _ in UInt8.random(in: 0...255, using: &generator) }
                Self.write(garbage, at: offset + start, to: &left)
            }
            start = end
        }
    }

    private static func apply(_ change: Change, to content: inout [UInt8]) {
        switch change {
        case .write(let bytes, let offset): write(bytes, at: offset, to: &content)
        case .truncate(let size): truncate(&content, to: size)
        }
    }

    private static func write(_ bytes: [UInt8], at offset: Int, to content: inout [UInt8]) {
        if content.count < offset + bytes.count {
            content += [UInt8](repeating: 0, count: offset + bytes.count - content.count)
        }
        content.replaceSubrange(offset..<offset + bytes.count, with: bytes)
    }

    private static func truncate(_ content: inout [UInt8], to size: Int) {
        if size < content.count { content.removeLast(content.count - size) }
    }
}
