/// The counter of a simulated hardware key, which goes up and never down, whatever happens to the process.
///
/// The file holds the last value given out, in decimal. A value is in the file, synced, before anybody has it: after a
/// crash there may be gaps, as there are on a phone, but no value twice.
public struct CounterFile: Sendable {
    private let path: String

    /// - Parameter path: of the file; beside it lies `path.lock`.
    init(path: String) {
        self.path = path
    }

    func create() throws(SimulatorError) {
        try SimulatorFile.create(path, Array("0\n".utf8))
    }

    /// The last value given out; 0 if none was.
    public func last() throws(SimulatorError) -> UInt32 {
        let text = String(decoding: try SimulatorFile.read(path), as: UTF8.self)
        guard text.hasSuffix("\n"), let value = UInt32(text.dropLast()) else {
            throw SimulatorError("\(path) contains no counter")
        }
        return value
    }

    /// Takes the next value, and as many after it as asked for.
    ///
    /// - Parameter count: at least 1.
    /// - Returns: the first of them.
    public func take(_ count: UInt32 = 1) throws(SimulatorError) -> UInt32 {
        try SimulatorFile.locked(path + ".lock") { () throws(SimulatorError) in
            let last = try last()
            guard count > 0, UInt32.max - last >= count else {
                throw SimulatorError("\(path): the counter has reached its maximum")
            }
            try SimulatorFile.replace(path, Array("\(last + count)\n".utf8))
            return last + 1
        }
    }
}
