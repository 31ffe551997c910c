import EventLoop
import Foundation
import Registry
import TestVectors
import Testing
import Vocabulary

@testable import Administration

@Suite("Devices through the administration socket")
struct DeviceEndpointTests {
    private let served: TestAdministration

    init() throws {
        served = try TestAdministration()
    }

    private func add(_ registration: DeviceRegistration) throws -> DeviceDocument {
        try #require(try served.client.perform(.add(registration)).document)
    }

    @Test("a device is added, shown, revoked and restored, and each answer says so")
    func life() throws {
        let registration = try Sample.registration()
        let added = try add(registration)
        #expect(added.device == 1)
        #expect(added.keyID == registration.publicKey.id.base64)
        #expect(added.appID == "ABCDE12345.org.example.app")
        #expect(added.platform == "ios")
        #expect(added.environment == "production")
        #expect(added.state == "active")
        #expect(added.revokedAt == nil)
        #expect(added.counter == 0)
        #expect(added.bindings?.map(\.keyID) == [registration.certificateKey.id.base64])
        #expect(added.bindings?.allSatisfy { $0.endedAt == nil } == true)

        let selection = try #require(DeviceSelection("1"))
        #expect(try served.client.perform(.show(selection)).document == added)
        let revoked = try #require(try served.client.perform(.revoke(selection)).document)
        #expect(revoked.state == "revoked")
        #expect(revoked.revokedAt != nil)
        #expect(try served.client.perform(.revoke(selection)).document == revoked, "a second time changes nothing")
        #expect(try served.client.perform(.restore(selection)).document == added)
    }

    @Test("a device is named by its number, its hardware key or a bound certificate key")
    func selections() throws {
        _ = try add(try Sample.registration())
        let registration = try Sample.registration()
        let added = try add(registration)
        for key in [registration.publicKey.id, registration.certificateKey.id] {
            for text in [key.description, key.description.uppercased(), key.base64, DeviceSelection.key(key).segment] {
                let selection = try #require(DeviceSelection(text), "\(text)")
                #expect(try served.client.perform(.show(selection)).document == added)
            }
            #expect(try served.ask("GET /devices/\(key)").status == 200)
        }
        let revoked = try served.client.perform(.revoke(.key(registration.certificateKey.id))).document
        #expect(revoked?.device == 2)
        #expect(revoked?.state == "revoked")
        let stranger = try Sample.key().id
        #expect(throws: AdministrationClientError.refused(.notFound("There is no such device."))) {
            _ = try served.client.perform(.show(.key(stranger)))
        }
    }

    @Test("the list of devices comes in pages, each device once, and the last page is marked")
    func pages() throws {
        let added = try (1...7).map { _ in try add(try Sample.registration()).device }
        var listed: [Int64] = []
        var after: Int64 = 0
        while true {
            let page = try #require(
                try served.client.perform(.list(after: DeviceID(after), limit: 3)).listed)
            #expect(page.devices.count <= 3)
            #expect(page.devices.allSatisfy { $0.bindings == nil })
            listed += page.devices.map(\.device)
            guard let next = page.next else { break }
            after = next
        }
        #expect(listed == added)
        let exact = try #require(try served.client.perform(.list(after: nil, limit: 7)).listed)
        #expect(exact.devices.count == 7)
        #expect(exact.next == nil)
    }

    @Test("a page larger than a connection's buffers arrives whole")
    func largePage() throws {
        let point = try Sample.key()
        let loop = try Loop()
        var replies = 0
        let client = try RegistryClient(served.registry, loop: loop) { event in
            if case .reply = event { replies += 1 }
            if replies == 500 { loop.stop() }
        }
        for number in 0..<500 {
            var digest = [UInt8](repeating: 7, count: 32)
            (digest[0], digest[1]) = (UInt8(number & 255), UInt8(number >> 8))
            let key = KeyID(digest: digest.span)
            let identity = DeviceIdentity(
                app: try Sample.app(), platform: .iOS, environment: .production, hardwareKey: try #require(key),
                point: point.point)
            while !client.perform(.register(identity, binding: nil), token: 1) { usleep(1_000) }
        }
        loop.run()
        let page = try #require(try served.client.perform(.list(after: nil, limit: 500)).listed)
        #expect(page.devices.count == 500)
        #expect(JSONText.encode(page).count > 64 * 1024)
    }

    @Test("a revocation reaches every worker of the process before its answer")
    func barred() throws {
        let registration = try Sample.registration()
        _ = try add(registration)
        let loop = try Loop()
        var barred: [KeyID] = []
        let worker = try RegistryClient(served.registry, loop: loop) { event in
            if case .barred(let keys) = event { barred += keys }
            loop.stop()
        }
        _ = try served.client.perform(.revoke(.key(registration.publicKey.id)))
        let limit = LoopTimer(loop: loop, interval: .seconds(30)) { loop.stop() }
        withExtendedLifetime((worker, limit)) { loop.run() }
        #expect(barred == [registration.certificateKey.id])
    }

    @Test("a key is registered once, and bound once")
    func conflicts() throws {
        let registration = try Sample.registration()
        _ = try add(registration)
        #expect(try served.refusal("POST /devices", content: text(registration)) == "409 key_registered")
        let other = DeviceRegistration(
            app: registration.app, platform: .iOS, environment: .production, publicKey: try Sample.key(),
            certificateKey: registration.certificateKey)
        #expect(try served.refusal("POST /devices", content: text(other)) == "409 key_bound")
        #expect(throws: AdministrationClientError.refused(AdministrationFault(.keyBound))) {
            _ = try served.client.perform(.add(other))
        }
        #expect(try served.client.perform(.list(after: nil, limit: 10)).listed?.devices.count == 1)
    }

    @Test("a store failure is reported as such, never as success")
    func storeFails() throws {
        // The disk is full.
        let served = try TestAdministration(maximumPages: 43)
        var added = 0
        var fault: AdministrationClientError?
        while fault == nil, added < 1_000 {
            let registration = try Sample.registration()
            do throws(AdministrationClientError) {
                _ = try served.client.perform(.add(registration))
                added += 1
            } catch {
                fault = error
            }
        }
        #expect(added > 0)
        #expect(fault == .refused(.storeUnavailable))
        #expect(AdministrationFault.storeUnavailable.status == 503)
    }

    private func text(_ registration: DeviceRegistration) -> String {
        String(decoding: registration.json, as: UTF8.self)
    }

    @Test("an added device is answered with 201, and refused JSON changes nothing")
    func strictJSON() throws {
        let registration = try Sample.registration()
        let good = text(registration)
        let key = registration.publicKey.base64
        let bad: [String] = [
            "", "[]", "null", "{}", "\"\(key)\"", String(good.dropLast()), good + good,
            good.replacing("{\"app_id\"", with: "{\"extra\":\"1\",\"app_id\""),
            good.replacing("{\"app_id\"", with: "{\"app_id\":\"ABCDE12345.org.example.app\",\"app_id\""),
            good.replacing("{\"app_id\"", with: "{\"app_id\":\"\\\"\",\"app_id\""),
            good.replacing("{\"app_id\"", with: "{\"\\u0061pp_id\":\"ABCDE12345.org.example.app\",\"app_id\""),
            good.replacing("\"production\"", with: "1"), good.replacing("\"production\"", with: "null"),
            good.replacing("\"production\"", with: "\"Production\""), good.replacing("\"ios\"", with: "\"iOS\""),
            good.replacing("\"ios\"", with: "[\"ios\"]"), good.replacing("ABCDE12345.", with: ""),
            good.replacing("\"public_key\"", with: "\"key\""), good.replacing(key, with: ""),
            good.replacing(key, with: String(key.dropLast())), good.replacing(key, with: " " + key),
            good.replacing(key, with: "AAAA"),
        ]
        for content in bad {
            #expect(try served.refusal("POST /devices", content: content) == "400 bad_request", "\(content)")
        }
        let utf16 = try #require(good.data(using: .utf16LittleEndian))
        #expect(throws: AdministrationFault.self) {
            _ = try JSONText.members(of: Array(utf16), admitted: ["app_id"])
        }
        #expect(try served.client.perform(.list(after: nil, limit: 10)).listed?.devices.isEmpty == true)
        #expect(try served.ask("POST /devices", content: good).status == 201)
    }

    @Test("the JSON members of a device never change")
    func members() throws {
        let added = try add(try Sample.registration())
        let text = String(decoding: JSONText.encode(DeviceAnswer.device(added)), as: UTF8.self)
        let pattern =
            #"^\{"app_id":"[^"]+","approved_at":null,"bindings":\[\{"created_at":"[0-9T:-]+Z","ended_at":null,"#
            + #""ends_at":null,"key_id":"[^"]{44}"\}\],"#
            + #""counter":0,"device":1,"environment":"production","key_id":"[^"]{44}","last_seen":null,"os_version":null,"phone":null,"#
            + #""platform":"ios","posture":\{"admission":"operator","bound_at":"[0-9T:-]+Z","enrolled_at":"[0-9T:-]+Z","#
            + #""environment":"production","platform":"ios"\},"receipt":null,"#
            + #""registered_at":"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z","revoked_at":null,"#
            + #""shown_extensions":\[\],"signals":null,"#
            + #""state":"active","subject":null\}$"#
        #expect(text.range(of: pattern, options: .regularExpression) != nil, "\(text)")
    }
}
