internal import DeviceSimulator

/// Counter values for all devices of a run, reserved on disk before any is used: a run that is killed leaves a gap, and
/// the next one uses none of its values again.
final class CounterBlocks {
    /// Where every device begins: each has a counter of its own, so they may all use the same values.
    let first: ClosedRange<UInt32>
    private let file: CounterFile

    private static let size: UInt32 = 100_000

    init(_ file: CounterFile) throws {
        self.file = file
        first = try Self.take(file)
    }

    /// A further block, above all blocks before it: for the one device that has used up its own.
    func next() throws -> ClosedRange<UInt32> { try Self.take(file) }

    private static func take(_ file: CounterFile) throws -> ClosedRange<UInt32> {
        let first = try file.take(size)
        return first...(first + size - 1)
    }
}
