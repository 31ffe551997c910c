import Foundation
import Testing

@testable import Lifecycle

@Suite("Watched files")
struct FileMarksTests {
    private let directory: ScratchDirectory
    private let path: String

    init() throws {
        directory = try ScratchDirectory()
        path = directory.file("watched")
        try write("first")
    }

    private func write(_ text: String, atomically: Bool = false) throws {
        try text.write(toFile: path, atomically: atomically, encoding: .utf8)
    }

    @Test("marks differ after any change: another length, another file, no file")
    func changes() throws {
        let first = FileMarks([path])
        #expect(first.renewed == first)
        try write("longer than the first")
        let second = first.renewed
        #expect(second != first)
        try write("longer than the first", atomically: true)
        let third = first.renewed
        #expect(third != second)
        try FileManager.default.removeItem(atPath: path)
        #expect(first.renewed != third && first.renewed == first.renewed)
    }

    @Test("files are read once, after they stayed unchanged for two looks")
    func reading() throws {
        let known = FileMarks([path])
        var watch = FileWatch(known)
        #expect(Self.looks(2, at: known, by: &watch) == [false, false])
        try write("half of it")
        #expect(Self.looks(1, at: known, by: &watch) == [false])
        try write("half of it, and the rest")
        #expect(Self.looks(4, at: known, by: &watch) == [false, true, false, false])
    }

    @Test("files are not read when a change was undone")
    func takenBack() throws {
        let known = FileMarks([path])
        var watch = FileWatch(known)
        try write("changed")
        #expect(Self.looks(1, at: known, by: &watch) == [false])
        let isRead = watch.shouldRead(known)
        #expect(!isRead)
        #expect(Self.looks(2, at: known, by: &watch) == [false, true])
    }

    private static func looks(_ count: Int, at marks: FileMarks, by watch: inout FileWatch) -> [Bool] {
        (0..<count).map { _ in watch.shouldRead(marks.renewed) }
    }
}
