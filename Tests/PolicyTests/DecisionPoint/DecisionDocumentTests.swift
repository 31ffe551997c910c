import Encoding
import Policy
import Registry
import Testing
import Vocabulary

/// Questions that tests change where they need to.
enum SampleQuestion {
    static let headers = ["x-tenant", "x-absent"]

    static func posture(_ platform: Platform) -> Posture {
        var posture = Posture(platform: platform, enrolledAt: 1_795_000_000, admission: .token)
        posture.attestedAt = 1_795_000_060
        if platform == .android {
            posture.system = SystemVersion("16")
            posture.app = AppVersion(code: 1042)
            posture.keyProtection = .strongBox
            posture.boot = .selfSigned
            posture.isBootloaderLocked = true
            posture.patchLevel = 202_601
            posture.vendorPatchLevel = 20_260_105
            posture.integrity = [.basic, .strong]
        } else {
            posture.system = SystemVersion("17.4")
            posture.keyProtection = .secureEnclave
            posture.risk = 3
        }
        return posture
    }

    static func make(_ platform: Platform = .iOS) -> DecisionQuestion {
        var question = DecisionQuestion(
            method: "PUT", route: "records", host: "api.example", path: "/records/7", query: "a=1&b=2",
            client: .device("d-1"))
        question.fields = [("X-Tenant", "north"), ("Accept", "*/*"), ("x-tenant", "south")]
        question.person = "p-1"
        question.app = AppID(platform == .android ? "android:org.example.app" : "ABCDE12345.org.example.app")
        question.platform = platform
        question.posture = posture(platform)
        question.network = "192.0.2.0/24"
        question.appDigest = [UInt8](repeating: 0xff, count: 32)
        return question
    }

    static let every: DecisionFacts = DecisionFacts(DecisionFacts.named.map(\.facts))
}

func text(_ question: DecisionQuestion, _ settings: DecisionSettings) throws -> String {
    String(decoding: try question.document(by: settings), as: UTF8.self)
}

@Suite("The request to a decision point of AuthZEN")
struct EvaluationRequestTests {
    @Test("by default the device asks for the method on the route, with all facts but path and query")
    func standard() throws {
        #expect(
            try text(SampleQuestion.make(), DecisionSettings(format: .authzen)) == """
                {"subject":{"type":"device","id":"d-1","properties":{"subject":"p-1","app":"ABCDE12345.org.example.app",\
                "platform":"ios","posture":{"platform":"ios","environment":"production","os_version":"17.4",\
                "key_protection":"secure-enclave","risk":3,"enrolled_at":"2026-11-18T11:06:40Z",\
                "attested_at":"2026-11-18T11:07:40Z","admission":"token"}}},"action":{"name":"PUT"},\
                "resource":{"type":"route","id":"records","properties":{"host":"api.example"}},\
                "context":{"client_network":"192.0.2.0/24"}}
                """)
    }

    @Test("without facts only the three ids that the standard demands are sent")
    func least() throws {
        let settings = DecisionSettings(format: .authzen, facts: [])
        #expect(
            try text(SampleQuestion.make(), settings) == """
                {"subject":{"type":"device","id":"d-1"},"action":{"name":"PUT"},"resource":{"type":"route","id":"records"}}
                """)
        var question = SampleQuestion.make()
        question.client = .certificate("c-1")
        #expect(try text(question, settings).hasPrefix(#"{"subject":{"type":"certificate","id":"c-1"},"#))
    }

    @Test("path, query and headers are sent where the operator opted in")
    func optedIn() throws {
        let settings = DecisionSettings(
            format: .authzen, facts: [.path, .query], headers: SampleQuestion.headers + ["Cookie", "Authorization"])
        #expect(settings.headers == SampleQuestion.headers)
        var question = SampleQuestion.make()
        question.fields += [("cookie", "secret"), ("authorization", "secret")]
        #expect(
            try text(question, settings) == """
                {"subject":{"type":"device","id":"d-1"},"action":{"name":"PUT"},"resource":{"type":"route","id":"records",\
                "properties":{"path":"/records/7","query":"a=1&b=2"}},"context":{"headers":{"x-tenant":["north","south"]}}}
                """)
    }

    @Test("unknown facts are left out, never null")
    func unknown() throws {
        let question = DecisionQuestion(method: "GET", route: "r", host: "h", path: "/", client: .device("d"))
        for format in DecisionFormat.allCases {
            let settings = DecisionSettings(format: format, facts: SampleQuestion.every, headers: ["x"])
            #expect(try !text(question, settings).contains("null"))
        }
    }

    @Test("a mapping asks as policies of the Todo scenario expect")
    func mapping() throws {
        let todo = DecisionMapping.Entity(type: "todo", id: .text("todo-1"))
        let one = try #require(PathTemplate("/users/{ownerID}/todos/{id}"))
        let all = try #require(PathTemplate("/todos"))
        let mapping = DecisionMapping(
            subject: .init(type: "user", id: .subject),
            templates: [
                .init(path: all, actions: ["GET": "can_read_todos", "POST": "can_create_todo"], resource: todo),
                .init(
                    path: one, actions: ["PUT": "can_update_todo", "DELETE": "can_delete_todo"],
                    resource: .init(type: "todo", id: .variable("id"))),
            ])
        let settings = DecisionSettings(format: .authzen, facts: [.path], mapping: mapping)
        var question = SampleQuestion.make()
        question.path = "/users/rick%40the-citadel.com/todos/7240d0db"
        #expect(
            try text(question, settings) == """
                {"subject":{"type":"user","id":"p-1"},"action":{"name":"can_update_todo"},"resource":{"type":"todo",\
                "id":"7240d0db","properties":{"path":"/users/rick%40the-citadel.com/todos/7240d0db",\
                "ownerID":"rick@the-citadel.com","id":"7240d0db"}}}
                """)
        question.path = "/todos"
        question.method = "POST"
        #expect(
            try text(question, settings).contains(#""name":"can_create_todo"},"resource":{"type":"todo","id":"todo-1""#)
        )
        question.method = "PATCH"
        #expect(try text(question, settings).contains(#""name":"PATCH""#))
        question.path = "/todos/"
        #expect(throws: QuestionFault.resourceUnknown) { try question.document(by: settings) }
        question.path = "/todos"
        question.person = nil
        #expect(throws: QuestionFault.subjectUnknown) { try question.document(by: settings) }
    }

    @Test("a mapping asks as policies of the gateway scenario expect")
    func gatewayMapping() throws {
        let mapping = DecisionMapping(
            subject: .init(type: "identity", id: .subject), resource: .init(type: "route", id: .pathTemplate),
            templates: try ["/users/{userId}", "/todos", "/todos/{todoId}"].map {
                .init(path: try #require(PathTemplate($0)))
            })
        let settings = DecisionSettings(format: .authzen, facts: [.device, .method, .route], mapping: mapping)
        var question = SampleQuestion.make()
        question.path = "/todos/1"
        #expect(
            try text(question, settings) == """
                {"subject":{"type":"identity","id":"p-1","properties":{"device":"d-1"}},"action":{"name":"PUT"},\
                "resource":{"type":"route","id":"/todos/{todoId}","properties":{"route":"records"}}}
                """)
    }

    @Test("each source of an id, and those that are not known")
    func identifiers() throws {
        let question = SampleQuestion.make()
        let expected: [(DecisionIdentifier, String?)] = [
            (.device, "d-1"), (.subject, "p-1"), (.app, "ABCDE12345.org.example.app"), (.route, "records"),
            (.host, "api.example"), (.path, "/records/7"), (.text("x"), "x"), (.pathTemplate, nil),
            (.variable("id"), nil),
        ]
        for (source, id) in expected {
            let mapping = DecisionMapping(resource: .init(type: "t", id: source))
            let settings = DecisionSettings(format: .authzen, facts: [], mapping: mapping)
            if let id {
                #expect(try text(question, settings).hasSuffix(#""resource":{"type":"t","id":"\#(id)"}}"#))
            } else {
                #expect(throws: QuestionFault.resourceUnknown) { try question.document(by: settings) }
            }
        }
    }

    @Test("an action that is named by a mapping has the method beside it")
    func actions() throws {
        let settings = DecisionSettings(format: .authzen, facts: [.method], mapping: .init(actions: ["PUT": "write"]))
        #expect(
            try text(SampleQuestion.make(), settings).contains(
                #""action":{"name":"write","properties":{"method":"PUT"}}"#))
    }

    @Test("texts of clients stay texts, in every form")
    func escaped() throws {
        let bad = "\",\"x\":\"\\\u{0}\n\u{7f}\u{2028}é𝄞"
        var question = SampleQuestion.make()
        question.path = bad
        question.query = bad
        question.host = bad
        question.fields = [("x-tenant", bad)]
        question.network = bad
        for format in DecisionFormat.allCases {
            let settings = DecisionSettings(
                format: format, facts: SampleQuestion.every, headers: SampleQuestion.headers)
            let document = try question.document(by: settings)
            let object = try JSONReader.object(in: document, longest: 1 << 16)
            switch format {
            case .authzen: #expect(object["resource"]?.object?["properties"]?.object?["path"]?.spells(bad) == true)
            case .opa: #expect(object["input"]?.object?["path"]?.spells(bad) == true)
            case .opaReference:
                #expect(object["input"]?.object?["request"]?.object?["clientIP"]?.spells(bad) == true)
            }
        }
    }
}

@Suite("The input of OPA")
struct OPAInputTests {
    @Test("every fact has its member")
    func every() throws {
        let settings = DecisionSettings(format: .opa, facts: SampleQuestion.every, headers: SampleQuestion.headers)
        #expect(
            try text(SampleQuestion.make(.android), settings) == """
                {"input":{"method":"PUT","route":"records","host":"api.example","path":"/records/7","query":"a=1&b=2",\
                "headers":{"x-tenant":["north","south"]},"device":"d-1","subject":"p-1","app":"android:org.example.app",\
                "platform":"android","posture":{"platform":"android","environment":"production","os_version":"16.0",\
                "patch_level":"2026-01","vendor_patch_level":"2026-01-05","app_version":"1042",\
                "key_protection":"strongbox","boot":"self-signed","bootloader_locked":true,\
                "play_integrity":["MEETS_BASIC_INTEGRITY","MEETS_STRONG_INTEGRITY"],\
                "enrolled_at":"2026-11-18T11:06:40Z","attested_at":"2026-11-18T11:07:40Z","admission":"token"},\
                "client_network":"192.0.2.0/24"}}
                """)
    }

    @Test("each fact is sent only if it is named")
    func single() throws {
        #expect(try text(SampleQuestion.make(), DecisionSettings(format: .opa, facts: [])) == #"{"input":{}}"#)
        for (facts, name) in DecisionFacts.named {
            let document = try SampleQuestion.make().document(by: DecisionSettings(format: .opa, facts: facts))
            let input = try JSONReader.object(in: document, longest: 4096)["input"]?.object
            #expect(input?.members.map { String(decoding: $0.name, as: UTF8.self) } == [name])
        }
    }

    @Test("a client without a device has a certificate instead")
    func certificate() throws {
        var question = SampleQuestion.make()
        question.client = .certificate("c-1")
        #expect(
            try text(question, DecisionSettings(format: .opa, facts: [.device])) == #"{"input":{"certificate":"c-1"}}"#)
    }
}
