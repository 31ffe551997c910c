internal import ArgumentParser
internal import CAllocations
internal import COpenSSL
internal import Foundation

/// What each operation allocates, and a mark for callgrind around each. `bench/micro` runs it, and prints the table.
struct CountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "count", abstract: "Counts what operations allocate.",
        discussion: """
            Each operation is done so many times, and twice as many: the difference is what it costs by itself. Prints a \
            line of JSON for each. `allocations_mark` is called before and after either run.
            """)

    @Option(help: "Count this operation alone.")
    var only: String?

    func run() throws {
        // Before OpenSSL has allocated anything: later it takes no others.
        guard
            CRYPTO_set_mem_functions(
                allocations_library_malloc, allocations_library_realloc, allocations_library_free) == 1
        else { throw Refused(description: "OpenSSL takes no functions for its memory") }
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent("attestgate-count-\(getpid())")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let request = try AttestedSample()
        let counters = try CounterOperation(in: directory.path, keyOf: request)
        defer { counters.stop() }
        for operation in try request.operations + [HTTP2Operation.make(request), counters.operation]
        where only == nil || only == operation.name {
            try Self.count(operation)
        }
    }

    private static func count(_ operation: CountedOperation) throws {
        // Memory is there, and what is made once is made.
        try operation.repeated(operation.warmUp)
        let few = try difference(operation, operation.times)
        let many = try difference(operation, 2 * operation.times)
        allocations_mark()
        let count = Double(operation.times * operation.each)
        func each(_ member: KeyPath<allocation_counts, UInt64>, _ part: KeyPath<Counts, allocation_counts>) -> Double {
            let found = Double(many[keyPath: part][keyPath: member]) - Double(few[keyPath: part][keyPath: member])
            return (found / count * 100).rounded() / 100
        }
        func of(_ part: KeyPath<Counts, allocation_counts>) -> String {
            """
            {"allocations": \(each(\.calls, part)), "bytes": \(each(\.bytes, part)), \
            "openssl_allocations": \(each(\.library_calls, part)), "openssl_bytes": \(each(\.library_bytes, part))}
            """
        }
        let others = operation.hasOthers ? ", \"others\": \(of(\.others))" : ""
        print(
            """
            {"name": "\(operation.name)", "times": \(operation.times * operation.each), "own": \(of(\.own))\(others)}
            """)
    }

    /// Of this thread, and of all others.
    private struct Counts {
        var own = allocation_counts()
        var others = allocation_counts()
    }

    private static func difference(_ operation: CountedOperation, _ times: Int) throws -> Counts {
        let own = allocations_of_thread()
        let all = allocations_of_process()
        allocations_mark()
        try operation.repeated(times)
        let counts = (own: allocations_of_thread() - own, all: allocations_of_process() - all)
        return Counts(own: counts.own, others: counts.all - counts.own)
    }
}

/// What was to be done was not.
struct Refused: Error, CustomStringConvertible {
    let description: String
}

/// Something that is done many times over.
struct CountedOperation {
    /// As bench/micro and its reference call it.
    let name: String
    let times: Int
    /// How many operations are one time.
    var each = 1
    /// Whether another thread works for it too.
    var hasOthers = false
    let repeated: (Int) throws -> Void

    var warmUp: Int { max(1, times / 2) }
}

extension allocation_counts {
    fileprivate static func - (later: Self, earlier: Self) -> Self {
        allocation_counts(
            calls: later.calls - earlier.calls, bytes: later.bytes - earlier.bytes,
            library_calls: later.library_calls - earlier.library_calls,
            library_bytes: later.library_bytes - earlier.library_bytes)
    }
}
