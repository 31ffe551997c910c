import EventLoop
import Foundation
import Glibc
import TestVectors
import Testing

@testable import Telemetry

@Suite("The log writer")
struct LogWriterTests {
    private func post(_ range: Range<Int>, to writer: LogWriter) {
        for number in range { writer.post(Array("line \(number)\n".utf8)) }
    }

    /// The name that a descriptor's file has now must not matter: waits until lines were written to it.
    private func wait(for count: Int, in name: String, of directory: LogDirectory) throws {
        while try directory.lines(name).count < count { usleep(1_000) }
    }

    @Test("lines are appended to a file, in order", .timeLimit(.minutes(1)))
    func appended() throws {
        let directory = try LogDirectory()
        for round in 0..<2 {
            let writer = try LogWriter(.file(directory.file))
            post((round * 100)..<(round * 100 + 100), to: writer)
            writer.stop()
        }
        #expect(try directory.lines() == (0..<200).map { "line \($0)" })
    }

    /// As much as may wait, should the thread not run at all.
    @Test("blocks are written in order and used again", .timeLimit(.minutes(1)))
    func blocks() throws {
        let directory = try LogDirectory()
        let writer = try LogWriter(.file(directory.file))
        var block: [UInt8] = []
        for number in 0..<1_000 {
            block += Array("line \(number)\n".utf8)
            if number % 10 == 9 {
                writer.exchange(&block)
                #expect(block.isEmpty && block.capacity >= LogWriter.blockRoom)
            }
        }
        writer.stop()
        #expect(try directory.lines() == (0..<1_000).map { "line \($0)" })
    }

    @Test("waiting lines are bounded, and dropped ones are counted", .timeLimit(.minutes(1)))
    func bounded() throws {
        let directory = try LogDirectory()
        mkfifo(directory.file, 0o600)
        let reader = open(directory.file, O_RDONLY | O_NONBLOCK)
        defer { close(reader) }
        let writer = try LogWriter(.file(directory.file))
        let block = [UInt8](repeating: 0x20, count: LogWriter.blockSize)
        for _ in 0..<200 { writer.post(block) }
        #expect(writer.waitingBytes <= 16 * 1024 * 1024 && writer.isBehind)
        #expect((60...80).contains(writer.droppedInAll))
        writer.stop()
    }

    @Test("a truncated line does not damage the next", arguments: ["", "a\nb\n", "a\nha"])
    func torn(before: String) throws {
        let directory = try LogDirectory()
        try Data(before.utf8).write(to: URL(filePath: directory.file))
        let writer = try LogWriter(.file(directory.file))
        post(0..<2, to: writer)
        // The file as this process has left it is whole.
        #expect(try writer.reopen())
        post(2..<3, to: writer)
        writer.stop()
        let text = try String(contentsOfFile: directory.file, encoding: .utf8)
        #expect(text == before + (before.hasSuffix("ha") ? "\n" : "") + "line 0\nline 1\nline 2\n")
    }

    @Test("a moved file is opened again without losing or repeating a line", .timeLimit(.minutes(1)))
    func reopened() throws {
        let directory = try LogDirectory()
        let writer = try LogWriter(.file(directory.file))
        for round in 0..<5 {
            post((round * 50)..<(round * 50 + 50), to: writer)
            try wait(for: 1, in: "access.log", of: directory)
            try FileManager.default.moveItem(atPath: directory.file, toPath: "\(directory.file).\(round)")
            #expect(try writer.reopen())
        }
        writer.stop()
        let rotated = try (0..<5).flatMap { try directory.lines("access.log.\($0)") }
        #expect(try rotated + directory.lines() == (0..<250).map { "line \($0)" })
        #expect(writer.droppedInAll == 0)
    }

    @Test("the old file is closed even when nothing more is written", .timeLimit(.minutes(1)))
    func released() throws {
        let directory = try LogDirectory()
        let writer = try LogWriter(.file(directory.file))
        defer { writer.stop() }
        let before = try openFiles(in: directory)
        #expect(before == ["access.log"])
        try writer.redirect(to: .file("\(directory.path)/other.log"))
        while try openFiles(in: directory) != ["other.log"] { usleep(1_000) }
    }

    /// A reader that has stopped: the log was moved away and opened again for that very reason.
    @Test(
        "a blocked writer continues in the new file with the line it was blocked at",
        .timeLimit(.minutes(1)))
    func stuck() throws {
        let directory = try LogDirectory()
        mkfifo(directory.file, 0o600)
        let reader = open(directory.file, O_RDONLY | O_NONBLOCK)
        defer { close(reader) }
        let writer = try LogWriter(.file(directory.file))
        defer { writer.stop() }
        let lines = (0..<20_000).map { "line \($0)" }
        let block = Array((lines.joined(separator: "\n") + "\n").utf8)
        writer.post(block)
        // It holds no more than this.
        var held: Int32 = 0
        while held < 32_768 {
            #expect(ioctl(reader, UInt(FIONREAD), &held) == 0)
            usleep(1_000)
        }
        try FileManager.default.moveItem(atPath: directory.file, toPath: "\(directory.file).1")
        #expect(try writer.reopen())
        while writer.waitingBytes > 0 { usleep(1_000) }
        var taken = [UInt8](repeating: 0, count: block.count)
        let count = read(reader, &taken, taken.count)
        try #require(count > 0 && count < block.count)
        let whole = taken[..<count].count { $0 == UInt8(ascii: "\n") }
        #expect(Array(taken[..<count]) == Array(block[..<count]))
        #expect(try directory.lines() == Array(lines[whole...]))
        #expect(writer.droppedInAll == 0)
    }

    @Test("a file that cannot be opened changes nothing", .timeLimit(.minutes(1)))
    func unopened() throws {
        let directory = try LogDirectory()
        let writer = try LogWriter(.file(directory.file))
        post(0..<10, to: writer)
        #expect(throws: EventLoopError.self) { try writer.redirect(to: .file("\(directory.path)/nowhere/access.log")) }
        // A pipe without a reader: waiting for one would stop the process.
        mkfifo("\(directory.path)/pipe", 0o600)
        #expect(throws: EventLoopError.self) { try writer.redirect(to: .file("\(directory.path)/pipe")) }
        post(10..<20, to: writer)
        writer.stop()
        #expect(try directory.lines() == (0..<20).map { "line \($0)" })
    }

    @Test("lines can be redirected to another file, and that one can be reopened", .timeLimit(.minutes(1)))
    func redirected() throws {
        let directory = try LogDirectory()
        let writer = try LogWriter(.file(directory.file))
        post(0..<10, to: writer)
        try wait(for: 10, in: "access.log", of: directory)
        try writer.redirect(to: .file("\(directory.path)/other.log"))
        post(10..<20, to: writer)
        try wait(for: 10, in: "other.log", of: directory)
        try FileManager.default.moveItem(
            atPath: "\(directory.path)/other.log", toPath: "\(directory.path)/other.log.1")
        #expect(try writer.reopen())
        post(20..<30, to: writer)
        writer.stop()
        #expect(try directory.lines() == (0..<10).map { "line \($0)" })
        #expect(try directory.lines("other.log.1") == (10..<20).map { "line \($0)" })
        #expect(try directory.lines("other.log") == (20..<30).map { "line \($0)" })
    }

    private func openFiles(in directory: LogDirectory) throws -> [String] {
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        return descriptors.compactMap { descriptor in
            let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")
            guard let target, target.hasPrefix(directory.path + "/") else { return nil }
            return String(target.dropFirst(directory.path.count + 1))
        }
    }
}
