internal import Administration
internal import ArgumentParser
internal import Cryptography
internal import Foundation
internal import GatewayConfiguration
internal import Lifecycle
internal import Registry
internal import Vocabulary

struct DeviceImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Register many devices manually, from a file with one JSON object per line.",
        discussion: """
            A line has the members app_id, public_key and certificate_key, and platform unless it is ios or android; the keys \
            are base64 as for `device add`. Nothing is registered unless every line is valid. A device that is \
            already registered with the same keys is skipped, so you can repeat an import. Creates the registry if \
            there is none.
            """)

    @OptionGroup var access: DeviceAccess

    @Argument(help: ArgumentHelp("The file; - is standard input.", valueName: "FILE"), completion: .file())
    var file: String

    func run() throws {
        let console = ProgressLine()
        let administration = try access.administration()
        let registrations = try read(console)
        try access.file.prepareSecret()
        let tally: DeviceImportTally
        do throws(DeviceImportError) {
            tally = try administration.register(registrations) {
                console.show("\($0.done) of \(registrations.count) devices")
            }
        } catch {
            console.clear()
            let place = error.index.map { "\(name):\($0 + 1): " } ?? ""
            Failure.print("\(place)\(error.reason)")
            throw Failure("\(Self.text(of: error.tally)); you can repeat the import")
        }
        console.clear()
        try access.print(tally, people: Self.text(of: tally))
    }

    private static func text(of tally: DeviceImportTally) -> String {
        "registered \(tally.registered) device\(tally.registered == 1 ? "" : "s")"
            + (tally.skipped > 0 ? ", skipped \(tally.skipped) already registered" : "")
    }

    // MARK: - File

    private var name: String { InputFile.name(of: file) }
    /// Limit of reported faults.
    private static let faultLimit = 20

    private func read(_ console: ProgressLine) throws -> [DeviceRegistration] {
        let configuration = try access.file.read()
        let apps = configuration.apps.map { ($0.id, AttestationEnvironment($0.environments[0])) }
        var list = RegistrationList(environments: Dictionary(uniqueKeysWithValues: apps), try LibraryContext())
        try readLines { line in
            list.append(line: line)
            console.show("\(list.lines) lines read")
            return list.lines <= RegistrationList.limit && list.faults.count < Self.faultLimit
        }
        console.clear()
        guard list.faults.isEmpty else {
            for fault in list.faults { Failure.print("\(name):\(fault.line): \(fault.reason)") }
            throw Failure("nothing was registered")
        }
        guard !list.registrations.isEmpty else { throw Failure("\(name): it has no devices") }
        return list.registrations
    }

    /// Reads the file line by line.
    ///
    /// - Parameter take: Returns whether to continue.
    private func readLines(_ take: (ArraySlice<UInt8>) -> Bool) throws {
        let input = try InputFile(file)
        var rest: [UInt8] = []
        // A longer line is refused, whatever follows.
        while rest.count <= RegistrationList.lineLimit, let block = try input.next() {
            rest += block
            var start = rest.startIndex
            while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
                guard take(rest[start..<end]) else { return }
                start = end + 1
            }
            rest.removeSubrange(..<start)
        }
        // The last line may lack its line end.
        if !rest.isEmpty { _ = take(rest[...]) }
    }
}

/// A progress line on standard error that is overwritten. It appears only on a terminal and after a short time.
final class ProgressLine {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var next = ContinuousClock.now + .seconds(2)
    private var isShown = false

    func show(_ text: @autoclosure () -> String) {
        guard isTerminal, ContinuousClock.now >= next else { return }
        next = .now + .milliseconds(200)
        isShown = true
        write("\r\u{1b}[K" + text())
    }

    func clear() {
        if isShown { write("\r\u{1b}[K") }
        isShown = false
    }

    private func write(_ text: String) {
        try? FileHandle.standardError.write(contentsOf: Data(text.utf8))
    }
}
