import EventLoop
import Testing

@testable import Upstream

@Suite("What a worker thinks of a server")
struct ServerHealthTests {
    private func health(failures: Int = 3, checks: HealthCheckRules? = nil) -> ServerHealth {
        var ejection = EjectionRules()
        ejection.failures = failures
        ejection.time = .seconds(10)
        ejection.longest = .seconds(35)
        return ServerHealth(ejection: ejection, checks: checks)
    }

    private func at(_ second: Int64) -> Instant { Instant(nanoseconds: second * 1_000_000_000) }

    @Test("only failures one after the other lead to an ejection")
    func consecutive() {
        var health = health()
        #expect(!on(&health) { $0.failed(at: at(0)) })
        #expect(!on(&health) { $0.failed(at: at(0)) })
        _ = health.succeeded(at: at(1))
        #expect(!on(&health) { $0.failed(at: at(2)) })
        #expect(!on(&health) { $0.failed(at: at(2)) })
        #expect(on(&health) { $0.failed(at: at(2)) })
    }

    @Test("where it may not be ejected, the next failure asks again")
    func floor() {
        var health = health()
        for _ in 0..<2 { _ = health.failed(at: at(0)) }
        for _ in 0..<3 { #expect(on(&health) { $0.failed(at: at(0)) }) }
        #expect(health.standing(at: at(0)) == .usable)
    }

    @Test("an ejection ends by itself, in probation")
    func probation() {
        var health = health()
        #expect(on(&health) { $0.eject(at: at(100)) } == .seconds(10))
        #expect(health.standing(at: at(109)) == .ejected)
        #expect(health.standing(at: at(110)) == .onProbation)
        #expect(on(&health) { $0.succeeded(at: at(111)) }, "the first request ends it")
        #expect(health.standing(at: at(111)) == .usable)
        #expect(!on(&health) { $0.succeeded(at: at(112)) })
    }

    @Test("one failure in probation ejects again, for twice as long, up to the longest")
    func backOff() {
        var health = health()
        var now: Int64 = 0
        for expected: Int64 in [10, 20, 35, 35] {
            #expect(on(&health) { $0.eject(at: at(now)) } == .seconds(expected))
            now += expected
            #expect(on(&health) { $0.failed(at: at(now)) })
        }
    }

    @Test("who fails again soon after coming back is away for longer; who was well for long enough begins anew")
    func forgetting() {
        var health = health(failures: 1)
        _ = health.eject(at: at(0))
        _ = health.succeeded(at: at(11))
        #expect(on(&health) { $0.failed(at: at(12)) })
        #expect(on(&health) { $0.eject(at: at(12)) } == .seconds(20))
        // Back at 32, and well until 52, for as long as it was away.
        _ = health.succeeded(at: at(33))
        _ = health.succeeded(at: at(52))
        #expect(on(&health) { $0.failed(at: at(53)) })
        #expect(on(&health) { $0.eject(at: at(53)) } == .seconds(10))
    }

    @Test("what was under way when it was ejected changes nothing")
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

    @Test("the first check decides alone; after that, as many as are configured")
    func checks() {
        var health = health(checks: rules)
        #expect(health.standing(at: at(0)) == .usable)
        #expect(on(&health) { $0.checked(passed: false) } == false)
        #expect(health.standing(at: at(0)) == .unhealthy)
        #expect(on(&health) { $0.checked(passed: true) } == nil)
        #expect(on(&health) { $0.checked(passed: true) } == true)
        #expect(health.standing(at: at(0)) == .usable)
        // One that passes in between begins the count anew.
        for passed in [false, false, true, false, false] { #expect(on(&health) { $0.checked(passed: passed) } == nil) }
        #expect(on(&health) { $0.checked(passed: false) } == false)
    }

    @Test("a first check that passes leaves nothing to the second one")
    func firstPasses() {
        var health = health(checks: rules)
        #expect(on(&health) { $0.checked(passed: true) } == nil)
        #expect(on(&health) { $0.checked(passed: false) } == nil)
        #expect(on(&health) { $0.checked(passed: false) } == nil)
        #expect(on(&health) { $0.checked(passed: false) } == false)
    }

    @Test("checks that pass do not end an ejection, nor does its end make an unhealthy one usable")
    func independent() {
        var health = health(checks: rules)
        _ = health.eject(at: at(0))
        #expect(on(&health) { $0.checked(passed: true) } == nil)
        #expect(health.standing(at: at(1)) == .ejected)
        for _ in 0..<3 { _ = health.checked(passed: false) }
        #expect(health.standing(at: at(60)) == .unhealthy)
    }

    @Test("statuses that pass: 200 to 299, or the one that is configured")
    func statuses() {
        var rules = rules
        #expect([199, 200, 204, 299, 300, 503].map { rules.passes($0) } == [false, true, true, true, false, false])
        rules.status = 301
        #expect([200, 301].map { rules.passes($0) } == [false, true])
    }
}
