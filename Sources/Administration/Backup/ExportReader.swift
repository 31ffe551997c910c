public import Cryptography
public import Registry

/// Reads an export line by line, as it is written and as it is taken over: the form of each line, their order, and in the end that
/// they are those that were written, all of them.
public final class ExportReader {
    /// Lines read so far.
    public private(set) var lines = 0
    /// What there was to begin with.
    public private(set) var head: ExportHead?
    public var counts: ExportCounts { order.counts }
    /// Whether the last line was there.
    var hasEnded: Bool { order.hasEnded }

    private let library: LibraryContext
    private var order = ExportOrder()
    /// Of the lines so far; nil once it was taken.
    private var digest: RunningDigest<32>?

    public init(_ library: LibraryContext) throws(CryptographyError) {
        self.library = library
        digest = try .sha256(library)
    }

    /// Reads the next line. - Parameter text: without its end.
    public func append(_ text: ArraySlice<UInt8>) throws(ExportFault) -> ExportRecord {
        lines += 1
        let record: ExportRecord
        do throws(ExportFault) {
            record = try ExportLine.decode(text)
            try order.add(record)
        } catch {
            try digest(text)
            throw error
        }
        if case .head(let head) = record { self.head = head }
        if case .end(let end) = record {
            guard try takeDigest() == end.digest else {
                throw ExportFault("the checksum of the earlier lines is wrong: the file was changed")
            }
        } else {
            try digest(text)
        }
        return record
    }

    /// At the end of the file.
    public func finish() throws(ExportFault) {
        guard order.hasEnded else { throw ExportFault("the last line is missing: the file is truncated") }
    }

    /// The last line of those that were read so far. Nothing can be read behind it.
    func makeEnd() throws(ExportFault) -> ExportEnd { ExportEnd(counts: counts, digest: try takeDigest()) }

    private func digest(_ text: ArraySlice<UInt8>) throws(ExportFault) {
        let line = Array(text) + [UInt8(ascii: "\n")]
        do throws(CryptographyError) { try digest?.update(line.span) } catch { throw ExportFault("\(error)") }
    }

    private func takeDigest() throws(ExportFault) -> Fingerprint {
        do throws(CryptographyError) {
            if let taken = digest.take(), let fingerprint = Fingerprint(try taken.finish().bytes) { return fingerprint }
        } catch {
            throw ExportFault("\(error)")
        }
        throw ExportFault("there is data after the last line")
    }

    /// Whether the device's hardware key is a key, and the one it is known by: nothing in a registry is looked at again.
    func check(_ device: ExportedDevice) throws(ExportFault) {
        let key: DeviceKey
        do throws(DeviceKeyFault) { key = try DeviceKey(point: device.identity.point.bytes, library) } catch {
            throw ExportFault("'point' \(error)")
        }
        guard key.id == device.identity.hardwareKey else {
            throw ExportFault("'hardware_key' is not the SHA-256 of 'point'")
        }
    }
}
