internal import COpenSSL

/// Bytes as OpenSSL's I/O abstraction, for reading and writing PEM in memory.
struct MemoryBIO: ~Copyable {
    let pointer: OpaquePointer

    /// An empty one to write to.
    init() {
        // Fails only without memory, where every other allocation in Swift ends the process, too.
        guard let pointer = BIO_new(BIO_s_mem()) else { fatalError("out of memory: BIO_new") }
        self.pointer = pointer
    }

    /// Holds a copy of `bytes`, to read from.
    init(reading bytes: [UInt8]) {
        self.init()
        // Writing to a memory BIO fails only without memory; at most Int32.max bytes at once, far above any PEM file.
        let written = BIO_write(pointer, bytes, Int32(bytes.count))
        precondition(written == Int32(bytes.count) || bytes.isEmpty, "out of memory: BIO_write")
    }

    deinit {
        BIO_free_all(pointer)
    }

    /// What was written.
    var bytes: [UInt8] {
        var data: UnsafeMutablePointer<CChar>?
        let count = ag_bio_get_mem_data(pointer, &data)
        guard let data, count > 0 else { return [] }
        return data.withMemoryRebound(to: UInt8.self, capacity: Int(count)) {
            Array(UnsafeBufferPointer(start: $0, count: Int(count)))
        }
    }
}
