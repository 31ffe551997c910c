import Testing

@testable import Lifecycle

@Suite("File rules of the sandbox")
struct FileRulesTests {
    private let rules = FileRules(
        read: ["/etc/attestgate/attestgate.yaml", "/etc/pki/server.pem"],
        written: ["/var/lib/attestgate/registry.sqlite", "/run/attestgate/administration.sock"],
        program: "/usr/bin/attestgate", libraries: ["/opt/swift/libswiftCore.so", "/usr/bin/attestgate"])

    @Test("the rules cover the directories of the named files, since files are replaced")
    func directories() {
        #expect(rules.readable.isSuperset(of: ["/etc/attestgate", "/etc/pki"]))
        #expect(rules.writable == ["/var/lib/attestgate", "/run/attestgate", "/dev/null"])
        #expect(rules.executable.isSuperset(of: ["/usr/bin", "/opt/swift"]))
    }

    @Test("the rules cover nothing else: not all of /etc, no home or temporary directories")
    func nothingElse() {
        let all = rules.readable.union(rules.writable).union(rules.executable)
        #expect(
            all.isDisjoint(with: [
                "/", "/etc", "/etc/ssl", "/etc/ssl/private", "/home", "/root", "/tmp", "/var", "/var/tmp", "/usr",
                "/dev",
            ]))
    }

    @Test(
        "in a shared directory the rules cover only the file itself",
        arguments: ["/dev/stdout", "/etc/certificates.pem", "/file"])
    func fileItself(path: String) {
        let rules = FileRules(read: [path], written: [path], program: "/opt/attestgate/attestgate", libraries: [])
        #expect(rules.readable.contains(path) && rules.writable.contains(path))
    }

    @Test("libraries are found in the memory map, also with a blank in their path")
    func mapped() {
        let maps = """
            7f00-7f01 r-xp 00000000 08:01 42                         /lib/x86_64-linux-gnu/libc.so.6
            7f02-7f03 rw-p 00000000 00:00 0
            7f04-7f05 r--p 00000000 08:01 43                         /opt/my swift/libswiftCore.so
            """
        #expect(FileRules.mapped(maps) == ["/lib/x86_64-linux-gnu/libc.so.6", "/opt/my swift/libswiftCore.so"])
    }
}
