import EventLoop
import Testing

@testable import Upstream

@Suite("Server health at a worker")
struct ServerHealthTests {
    private func health(failures: Int = 3, checks: HealthCheckRules? = nil) -> ServerHealth {
        var ejection = EjectionRules()
        ejection.failures = failures
        ejection.time = .seconds(10)
        ejection.longest = .seconds(35)
        return ServerHealth(ejection: ejection, checks: checks)
    }

    private func at(_ second: Int64) -> Instant { Instant(nanoseconds: second * 1_000_000_000) }

    @Test("only consecutive failures lead to an ejection")
    func consecutive() {
        var health = health()
        #expect(!on(&health) { $0.failed(at: at(0)) })
        #expect(!on(&health) { $0.failed(at: at(0)) })
        _ = health.succeeded(at: at(1))
        #expect(!on(&health) { $0.failed(at: at(2)) })
        #expect(!on(&health) { $0.failed(at: at(2)) })
        #expect(on(&health) { $0.failed(at: at(2)) })
    }

    @Test("where ejecting is not allowed, each further failure asks again")
    func floor() {
        var health = health()
        for _ in 0..<2 { _ = health.failed(at: at(0)) }
        for _ in 0..<3 { #expect(on(&health) { $0.failed(at: at(0)) }) }
        #expect(health.standing(at: at(0)) == .usable)
    }

    @Test("an ejection ends by itself in probation")
    func probation() {
        var health = health()
        #expect(on(&health) { $0.eject(at: at(100)) } == .seconds(10))
        #expect(health.standing(at: at(109)) == .ejected)
        #expect(health.standing(at: at(110)) == .onProbation)
        #expect(on(&health) { $0.succeeded(at: at(111)) }, "the first request ends it")
        #expect(health.standing(at: at(111)) == .usable)
        #expect(!on(&health) { $0.succeeded(at: at(112)) })
    }

    @Test("one failure in probation ejects again for twice as long, up to the maximum")
    func backOff() {
        var health = health()
        var now: Int64 = 0
        for expected: Int64 in [10, 20, 35, 35] {
            #expect(on(&health) { $0.eject(at: at(now)) } == .seconds(expected))
            now += expected
            #expect(on(&health) { $0.failed(at: at(now)) })
        }
    }

    @Test("a server that fails soon after returning is ejected for longer, until it stays healthy")
    func forgetting() {
        var health = health(failures: 1)
        _ = health.eject(at: at(0))
        _ = health.succeeded(at: at(11))
        #expect(on(&health) { $0.failed(at: at(12)) })
        #expect(on(&health) { $0.eject(at: at(12)) } == .seconds(20))
        // Back at 32, and healthy until 52, for as long as it was ejected.
        _ = health.succeeded(at: at(33))
        _ = health.succeeded(at: at(52))
        #expect(on(&health) { $0.failed(at: at(53)) })
        #expect(on(&health) { $0.eject(at: at(53)) } == .seconds(10))
    }

    @Test("requests in flight at an ejection do not change it")
    func late() {
        var health = health()
        _ = health.eject(at: at(0))
        for _ in 0..<10 { #expect(!on(&health) { $0.failed(at: at(5)) }) }
        #expect(!on(&health) { $0.succeeded(at: at(6)) })
        #expect(health.standing(at: at(7)) == .ejected)
        #expect(health.standing(at: at(10)) == .onProbation)
    }

    private var rules: HealthCheckRules {
        var rules = HealthCheckRules(path: "/health")
        rules.healthyAfter = 2
        rules.unhealthyAfter = 3
        return rules
    }

    @Test("the first check decides alone, later ones by the configured number")
    func checks() {
        var health = health(checks: rules)
        #expect(health.standing(at: at(0)) == .usable)
        #expect(on(&health) { $0.checked(passed: false) } == false)
        #expect(health.standing(at: at(0)) == .unhealthy)
        #expect(on(&health) { $0.checked(passed: true) } == nil)
        #expect(on(&health) { $0.checked(passed: true) } == true)
        #expect(health.standing(at: at(0)) == .usable)
        // One that passes in between restarts the count.
        for passed in [false, false, true, false, false] { #expect(on(&health) { $0.checked(passed: passed) } == nil) }
        #expect(on(&health) { $0.checked(passed: false) } == false)
    }

    @Test("a first passed check does not make the second one decide alone")
    func firstPasses() {
        var health = health(checks: rules)
        #expect(on(&health) { $0.checked(passed: true) } == nil)
        #expect(on(&health) { $0.checked(passed: false) } == nil)
        #expect(on(&health) { $0.checked(passed: false) } == nil)
        #expect(on(&health) { $0.checked(passed: false) } == false)
    }

    @Test("passed checks do not end an ejection, and its end does not make a server healthy")
    func independent() {
        var health = health(checks: rules)
        _ = health.eject(at: at(0))
        #expect(on(&health) { $0.checked(passed: true) } == nil)
        #expect(health.standing(at: at(1)) == .ejected)
        for _ in 0..<3 { _ = health.checked(passed: false) }
        #expect(health.standing(at: at(60)) == .unhealthy)
    }

    @Test("a check passes with 200 to 299, or the configured status")
    func statuses() {
        var rules = rules
        #expect([199, 200, 204, 299, 300, 503].map { rules.passes($0) } == [false, true, true, true, false, false])
        rules.status = 301
        #expect([200, 301].map { rules.passes($0) } == [false, true])
    }
}
