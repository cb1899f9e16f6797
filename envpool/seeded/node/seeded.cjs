// Make a Node program's clock and random numbers follow from the number of the current call.
//
// Loaded by `--require` in NODE_OPTIONS (Node 18 and later), in every program and worker thread,
// before CommonJS and ES modules of the program. The file named by REHEARSAL_MOMENTS says the seed,
// the clock, and the number of the current call (its layout: moments.py). All that is drawn follows
// from these three and from what was drawn before in the same call of the same thread.
//
// Covered: Date, Math.random, performance.timeOrigin; bytes, UUIDs, integers and getRandomValues of
// node:crypto and globalThis.crypto; CURRENT_TIMESTAMP, the date functions, random() and
// randomblob() in databases of better-sqlite3 and node:sqlite; the times of sql.js; the dates of
// commits that `git`, started by node:child_process, makes.
// Real: performance.now, process.hrtime, timers, file times, process ids. Not covered: keys that
// node:crypto generates, Intl formats of no date, other native modules. Packages that draw many
// numbers at once and keep them (nanoid, uuid before 9), and SQL's random() in sql.js, repeat when
// the same calls are made again, not in a program that begins with a later call.
'use strict'

const fs = require('node:fs')
const Module = require('node:module')
const crypto = require('node:crypto')

const PATH = process.env.REHEARSAL_MOMENTS
const STEP = 1000 // milliseconds between the beginnings of two calls
const PACE_AFTER = 5000 // milliseconds that a call takes before a loop that waits may end
const PACE_READS = 8 // and the reads of the clock that make it a loop
const NODE_LOADED = 65 // offset of the byte by which we say that this file was loaded
const SQL_JS = Symbol.for('rehearsal sql.js')
const MASK = (1n << 64n) - 1n

const realNow = performance.now.bind(performance)
const realHash = crypto.createHash
const readSync = fs.readSync
const RealDate = Date

const NUMBER = 2n ** 32n - 1n // the bits that are the number; those above count the resets

class Moments {
  constructor(path) {
    this.file = fs.openSync(path, 'r+')
    this.record = Buffer.alloc(16)
    const rest = Buffer.alloc(40)
    fs.readSync(this.file, rest, 0, 40, 24)
    this.clock = Number(rest.readBigUInt64LE(0) / 1000000n)
    this.seed = rest.subarray(8)
    this.mark = null
    this.seen = null
    this.refresh()
  }

  /** Begin anew where the number of the call has changed; 0: the start of the process. */
  refresh() {
    let mark
    do {
      readSync(this.file, this.record, 0, 16, 8)
      mark = this.record.readBigUInt64LE(0)
    } while ((mark ^ MASK) !== this.record.readBigUInt64LE(8)) // it is being written
    if (mark === this.mark) return
    this.mark = mark
    this.seen = mark & NUMBER
    this.streams = new Map()
    this.reads = 0
    this.since = realNow()
  }

  /** Unix time in milliseconds; each read moves it. It takes up the real pace when the program goes
   * on reading it long after the call began: it waits for a time to come. */
  now() {
    this.refresh()
    this.reads += 1
    return this.still()
  }

  /** Unix time in milliseconds, without moving it. */
  still() {
    this.refresh()
    const isLoop = this.reads >= PACE_READS
    const waited = isLoop ? Math.floor(realNow() - this.since - PACE_AFTER) : 0
    return this.clock + Number(this.seen) * STEP + this.reads + Math.max(0, waited)
  }

  /** Random bytes of the moment's stream with this name. */
  bytes(name, count) {
    this.refresh()
    let stream = this.streams.get(name)
    if (stream === undefined) {
      stream = { left: Buffer.alloc(0), blocks: 0 }
      this.streams.set(name, stream)
    }
    const parts = [stream.left]
    let held = stream.left.length
    while (held < count) {
      const block = realHash('sha512')
        .update(this.seed)
        .update(`${this.seen} ${name} ${stream.blocks++}`)
        .digest()
      parts.push(block)
      held += block.length
    }
    const all = Buffer.concat(parts)
    stream.left = all.subarray(count)
    return all.subarray(0, count)
  }

  /** A random number from 0 to 1, without 1. */
  fraction(name) {
    const word = this.bytes(name, 8).readBigUInt64LE(0)
    return Number(word >> 11n) / 2 ** 53
  }
}

/** The class Date with this clock, in milliseconds. */
function dateOf(now) {
  function SeededDate(...args) {
    if (new.target === undefined) return new RealDate(now()).toString()
    const target = new.target === SeededDate ? RealDate : new.target
    return Reflect.construct(RealDate, args.length === 0 ? [now()] : args, target)
  }
  Object.defineProperties(SeededDate, {
    name: { value: 'Date', configurable: true },
    length: { value: 7, configurable: true },
    prototype: { value: RealDate.prototype, writable: false },
  })
  for (const name of ['UTC', 'parse']) define(SeededDate, name, RealDate[name])
  define(SeededDate, 'now', now)
  return SeededDate
}

function seedDate(moments) {
  const SeededDate = dateOf(() => moments.now())
  define(RealDate.prototype, 'constructor', SeededDate)
  define(globalThis, 'Date', SeededDate)
  Object.defineProperty(performance, 'timeOrigin', { value: moments.clock, configurable: true })
}

/** SQLite as WebAssembly (sql.js) reads the clock some hundred times when it opens a file, and seeds
 * its random numbers. Its reads do not move the clock and its numbers are from a stream of its own:
 * otherwise a process that opens its file in a later call would have other times and ids. */
function seedSqlJs(moments) {
  const compile = Module.prototype._compile
  const fill = filler((count) => moments.bytes('sql.js', count))
  const own = Object.assign(Object.create(crypto), { randomFillSync: fill })
  const wrapped = (real) => (name) => (/^(node:)?crypto$/.test(name) ? own : real(name))
  globalThis[SQL_JS] = { Date: dateOf(() => moments.still()), wrapped }
  Module.prototype._compile = function (content, filename, ...rest) {
    if (/[\\/]sql-(wasm|asm)[^\\/]*\.js$/.test(filename)) {
      const scope = `globalThis[Symbol.for('${SQL_JS.description}')]`
      content = `var Date = ${scope}.Date, require = ${scope}.wrapped(require); ${content}`
    }
    return compile.call(this, content, filename, ...rest)
  }
}

/** A function like crypto.randomFillSync, with bytes from `draw`. */
function filler(draw) {
  return (array, offset = 0, size = undefined) => {
    const view = ArrayBuffer.isView(array)
      ? new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
      : new Uint8Array(array)
    const unit = array.BYTES_PER_ELEMENT ?? 1
    const start = offset * unit
    const end = size === undefined ? view.length : start + size * unit
    view.set(draw(end - start), start)
    return array
  }
}

function seedCrypto(moments) {
  const fill = filler((count) => moments.bytes('bytes', count))
  const later = (callback, value) => {
    if (typeof callback !== 'function') return value
    process.nextTick(callback, null, value)
  }
  const realBytes = crypto.randomBytes // for its checks of arguments
  const randomBytes = (size, callback) => {
    realBytes(0)
    if (!(Number.isInteger(size) && size >= 0 && size < 2 ** 31)) return realBytes(size, callback)
    return later(callback, moments.bytes('bytes', size))
  }
  const randomFill = (array, ...rest) => {
    const callback = rest.pop()
    later(callback, fill(array, ...rest))
  }
  const realInt = crypto.randomInt
  const randomInt = (...args) => {
    const callback = typeof args.at(-1) === 'function' ? args.pop() : undefined
    realInt(...args) // for its checks of arguments
    const [low, high] = args.length === 1 ? [0, args[0]] : args
    return later(callback, low + Math.floor(moments.fraction('int') * (high - low)))
  }
  const randomUUID = () => {
    const bytes = Buffer.from(moments.bytes('uuid', 16))
    bytes[6] = (bytes[6] & 0x0f) | 0x40
    bytes[8] = (bytes[8] & 0x3f) | 0x80
    return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  }
  const realValues = crypto.webcrypto.getRandomValues
  const getRandomValues = (array) => {
    realValues.call(crypto.webcrypto, array) // for its checks of arguments
    return fill(array)
  }
  const all = { randomBytes, randomFill, randomFillSync: fill, randomInt, randomUUID }
  for (const [name, value] of Object.entries(all)) define(crypto, name, value)
  define(crypto, 'pseudoRandomBytes', randomBytes)
  const web = Object.getPrototypeOf(crypto.webcrypto)
  define(web, 'randomUUID', randomUUID)
  define(web, 'getRandomValues', getRandomValues)
  define(Math, 'random', () => moments.fraction('Math'))
}

const GIT_DATES = ['GIT_AUTHOR_DATE', 'GIT_COMMITTER_DATE']

/** Give a program that is started the time of its commits, unless the program has set it. */
function seedProcesses(moments) {
  const processes = require('node:child_process')
  const stamp = () => `${Math.floor(moments.still() / 1000)} +0000`
  const { spawn } = processes.ChildProcess.prototype
  define(processes.ChildProcess.prototype, 'spawn', function (options) {
    const pairs = options?.envPairs
    const added = GIT_DATES.filter((name) => !pairs?.some((one) => one.startsWith(`${name}=`)))
    if (pairs) options.envPairs = [...pairs, ...added.map((name) => `${name}=${stamp()}`)]
    return spawn.call(this, options)
  })
  for (const name of ['spawnSync', 'execSync', 'execFileSync']) {
    const real = processes[name]
    define(processes, name, (...args) => {
      const isLast = typeof args.at(-1) === 'object' && !Array.isArray(args.at(-1))
      const options = (isLast ? args.pop() : undefined) ?? {}
      const dates = Object.fromEntries(GIT_DATES.map((date) => [date, stamp()]))
      return real(...args, { ...options, env: { ...dates, ...(options.env ?? process.env) } })
    })
  }
}

const DATES = ['date', 'time', 'datetime', 'julianday', 'unixepoch', 'strftime', 'timediff']

/** Before the first statement of each database of this class, define its functions of time and chance
 * anew. Dates that SQL computes are answered by SQLite's own functions, in a database in memory. */
function seedDatabase(Database, moments) {
  const { exec, prepare } = Database.prototype
  const stamp = () => new RealDate(moments.now()).toISOString().replace('T', ' ').slice(0, -1)
  const isNow = (value) => typeof value === 'string' && value.toLowerCase() === 'now'
  let helper
  const dated = (name) => (...args) => {
    if (args.length <= (name === 'strftime' ? 1 : 0)) args.push('now')
    const now = args.some(isNow) ? stamp() : ''
    const values = args.map((value) => (isNow(value) ? now : value))
    const marks = values.map(() => '?').join()
    return prepare.call(helper, `SELECT ${name}(${marks}) AS value`).get(...values).value
  }
  const isKnown = (name) => {
    try {
      prepare.call(helper, `SELECT ${name}()`)
      return true
    } catch (error) {
      return !String(error.message).includes('no such function')
    }
  }
  let functions
  const done = new WeakSet()
  const begin = (database) => {
    if (done.has(database)) return
    helper ??= new Database(':memory:')
    functions ??= [
      ['current_timestamp', () => stamp().slice(0, 19), true],
      ['current_date', () => stamp().slice(0, 10), true],
      ['current_time', () => stamp().slice(11, 19), true],
      ['random', () => moments.bytes('sql', 8).readBigInt64LE(0), false],
      ['randomblob', (size) => moments.bytes('sql', Math.max(1, Number(size))), false],
      ...DATES.filter(isKnown).map((name) => [name, dated(name), true]),
    ]
    for (const [name, body, deterministic] of functions) {
      database.function(name, { deterministic, varargs: DATES.includes(name) }, body)
    }
    done.add(database)
  }
  define(Database.prototype, 'exec', function (...args) {
    begin(this)
    return exec.apply(this, args)
  })
  define(Database.prototype, 'prepare', function (...args) {
    begin(this)
    return prepare.apply(this, args)
  })
}

const METHODS = ['aggregate', 'backup', 'function', 'pragma'] // of better-sqlite3 and its forks

function seedSqlite(moments) {
  const load = Module._load
  const seeded = new WeakSet()
  Module._load = function (request) {
    const loaded = load.apply(this, arguments)
    const isDatabase = (name) => typeof loaded.prototype?.[name] === 'function'
    if (typeof loaded === 'function' && METHODS.every(isDatabase) && !seeded.has(loaded)) {
      seeded.add(loaded)
      seedDatabase(loaded, moments)
    }
    return loaded
  }
  const warn = process.emitWarning
  process.emitWarning = () => {} // node:sqlite is called experimental when it is loaded
  try {
    const { DatabaseSync } = require('node:sqlite')
    if (DatabaseSync.prototype.function) seedDatabase(DatabaseSync, moments)
  } catch {
    // this version has no SQLite
  } finally {
    process.emitWarning = warn
  }
}

function define(object, name, value) {
  Object.defineProperty(object, name, {
    value,
    writable: true,
    configurable: true,
    enumerable: Object.getOwnPropertyDescriptor(object, name)?.enumerable ?? false,
  })
}

function start() {
  const moments = new Moments(PATH)
  seedDate(moments)
  seedCrypto(moments)
  seedSqlite(moments)
  seedSqlJs(moments)
  seedProcesses(moments)
  Module.syncBuiltinESMExports()
  fs.writeSync(moments.file, Buffer.from([1]), 0, 1, NODE_LOADED)
}

if (PATH) start()
