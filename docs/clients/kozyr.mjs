// Calls to Kozyr on nothing but Node: HTTP/2 by node:http2, messages by the contract that
// `buf build -o kozyr.json` writes down. Fields are called as in protobuf's JSON (`displayName`),
// enums are their names, bytes are Buffers, 64-bit numbers are numbers as long as they are exact.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect, constants } from "node:http2";

const CODES = [
  ...["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"],
  ...["ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"],
  ...["ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"],
  "UNAUTHENTICATED",
];
const AGAIN = ["UNAVAILABLE", "DEADLINE_EXCEEDED"];
const TRIES = 8;
const field = (name, number, type, more = {}) => ({ name, jsonName: name, number, type, ...more });
const REPEATED = { label: "LABEL_REPEATED" };
const RPC_STATUS = [
  // What an error carries; google.rpc is no part of the contract itself.
  { name: "Status", field: [field("details", 3, "TYPE_MESSAGE", { typeName: ".google.rpc.Any", ...REPEATED })] },
  { name: "Any", field: [field("typeUrl", 1, "TYPE_STRING"), field("value", 2, "TYPE_BYTES")] },
  { name: "ErrorInfo", field: [field("reason", 1, "TYPE_STRING")] },
  { name: "RetryInfo", field: [field("delay", 1, "TYPE_MESSAGE", { typeName: ".google.rpc.Duration" })] },
  { name: "Duration", field: [field("seconds", 1, "TYPE_INT64"), field("nanos", 2, "TYPE_INT32")] },
  { name: "BadRequest", field: [field("fields", 1, "TYPE_MESSAGE", { typeName: ".google.rpc.Field", ...REPEATED })] },
  { name: "Field", field: [field("field", 1, "TYPE_STRING"), field("description", 2, "TYPE_STRING")] },
];

// Why a call was not carried out: the gRPC code, the reason programs may rely on, the fields that
// are wrong, and how long to wait before the next try.
export class Refused extends Error {
  constructor(code, reason, message, fields = [], retryMs = 0) {
    super(`${reason}: ${message}`);
    Object.assign(this, { code, reason, fields, retryMs });
  }
}

// The messages and methods there are.
export class Contract {
  constructor(path) {
    this.types = new Map();
    this.enums = new Map();
    this.methods = new Map();
    for (const file of JSON.parse(readFileSync(path, "utf8")).file) {
      this.#declare(`.${file.package}`, file);
      for (const service of file.service ?? []) {
        for (const method of service.method) {
          this.methods.set(`${file.package}.${service.name}/${method.name}`, method);
        }
      }
    }
    this.#declare(".google.rpc", { messageType: RPC_STATUS });
  }

  #declare(scope, { messageType = [], nestedType = [], enumType = [] }) {
    for (const made of enumType) {
      const values = made.value.map((each) => [each.name, each.number ?? 0]);
      const names = new Map(values.map(([name, number]) => [number, name]));
      this.enums.set(`${scope}.${made.name}`, { numbers: new Map(values), names });
    }
    for (const made of [...messageType, ...nestedType]) {
      this.types.set(`${scope}.${made.name}`, made.field ?? []);
      this.#declare(`${scope}.${made.name}`, made);
    }
  }

  encode(type, message) {
    const parts = [];
    for (const field of this.types.get(type)) {
      const given = message[field.jsonName];
      const values = field.label === "LABEL_REPEATED" ? (given ?? []) : [given];
      for (const value of values) {
        const kept = field.oneofIndex !== undefined || field.label === "LABEL_REPEATED";
        if (value !== undefined && (kept || !this.#isDefault(field, value))) {
          parts.push(this.#encodeField(field, value));
        }
      }
    }
    return Buffer.concat(parts);
  }

  #isDefault(field, value) {
    if (field.type === "TYPE_ENUM") return !this.enums.get(field.typeName).numbers.get(value);
    return field.type === "TYPE_BYTES" ? value.length === 0 : value === "" || !value;
  }

  #encodeField(field, value) {
    switch (field.type) {
      case "TYPE_MESSAGE":
        return framed(field.number, this.encode(field.typeName, value));
      case "TYPE_STRING":
        return framed(field.number, Buffer.from(value, "utf8"));
      case "TYPE_BYTES":
        return framed(field.number, value);
      case "TYPE_ENUM": {
        const known = this.enums.get(field.typeName).numbers.get(value);
        return Buffer.concat([varint(field.number << 3), varint(known ?? value)]);
      }
      default:
        return Buffer.concat([varint(field.number << 3), varint(value)]);
    }
  }

  decode(type, octets) {
    const message = {};
    const fields = new Map();
    for (const field of this.types.get(type)) {
      fields.set(field.number, field);
      if (field.label === "LABEL_REPEATED") message[field.jsonName] = [];
      else if (field.oneofIndex === undefined) message[field.jsonName] = this.#default(field);
    }
    const at = { octets, place: 0 };
    while (at.place < octets.length) {
      const key = Number(readVarint(at));
      const field = fields.get(key >> 3);
      const raw = readValue(at, key & 7);
      if (field === undefined) continue; // newer than this contract
      const values = this.#decodeField(field, raw);
      if (field.label === "LABEL_REPEATED") message[field.jsonName].push(...values);
      else message[field.jsonName] = values.at(-1);
    }
    return message;
  }

  #default(field) {
    switch (field.type) {
      case "TYPE_MESSAGE":
        return undefined;
      case "TYPE_STRING":
        return "";
      case "TYPE_BYTES":
        return Buffer.alloc(0);
      case "TYPE_BOOL":
        return false;
      case "TYPE_ENUM":
        return this.enums.get(field.typeName).names.get(0);
      default:
        return 0;
    }
  }

  #decodeField(field, raw) {
    switch (field.type) {
      case "TYPE_MESSAGE":
        return [this.decode(field.typeName, raw)];
      case "TYPE_STRING":
        return [raw.toString("utf8")];
      case "TYPE_BYTES":
        return [raw];
    }
    const numbers = [];
    if (typeof raw === "bigint") numbers.push(raw);
    else for (const at = { octets: raw, place: 0 }; at.place < raw.length; ) numbers.push(readVarint(at));
    return numbers.map((number) => {
      if (field.type === "TYPE_BOOL") return number !== 0n;
      const signed = BigInt.asIntN(64, number);
      const value = Number.isSafeInteger(Number(signed)) ? Number(signed) : signed;
      return field.type === "TYPE_ENUM" ? (this.enums.get(field.typeName).names.get(value) ?? value) : value;
    });
  }
}

function varint(value) {
  let left = BigInt.asUintN(64, BigInt(value));
  const octets = [];
  while (left > 127n) {
    octets.push(Number(left & 127n) | 128);
    left >>= 7n;
  }
  return Buffer.from([...octets, Number(left)]);
}

function framed(number, octets) {
  return Buffer.concat([varint((number << 3) | 2), varint(octets.length), octets]);
}

function readVarint(at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const octet = at.octets[at.place++];
    value |= BigInt(octet & 127) << shift;
    if (octet < 128) return value;
  }
}

function readValue(at, wire) {
  if (wire === 0) return readVarint(at);
  const length = { 1: 8, 5: 4 }[wire] ?? Number(readVarint(at));
  at.place += length;
  return at.octets.subarray(at.place - length, at.place);
}

// One service at one address. `token` is the access token that its calls send.
export class Client {
  #contract;
  #address;
  #session;

  constructor(address, contract) {
    this.#address = address;
    this.#contract = contract;
    this.token = "";
  }

  // A unary call. A change is given a request id and keeps it however often it is sent, so it acts
  // once; it is sent again while the service does not answer.
  async call(method, request, timeoutMs = 5_000) {
    const { inputType } = this.#contract.methods.get(method);
    const named = this.#contract.types.get(inputType).some((field) => field.jsonName === "requestId");
    const sent = named ? { requestId: randomUUID(), ...request } : request;
    for (let tries = 1, waitMs = 100; ; tries += 1, waitMs = Math.min(2 * waitMs, 2_000)) {
      try {
        for await (const reply of this.stream(method, sent, () => timeoutMs)) return reply;
        throw new Refused("UNAVAILABLE", "STREAM_ENDED", "no answer");
      } catch (refused) {
        const again = AGAIN.includes(refused.code) || refused.retryMs > 0;
        if (!again || tries === TRIES) throw refused;
        await new Promise((done) => setTimeout(done, Math.max(waitMs * (0.5 + Math.random() / 2), refused.retryMs)));
      }
    }
  }

  // A server stream. `silenceMs` says of the last message (at first of none) how long to wait for
  // the next; then, and when the service goes away, it ends with Refused.
  async *stream(method, request, silenceMs = () => 15_000) {
    const { inputType, outputType } = this.#contract.methods.get(method);
    const session = this.#connected();
    const headers = { ":method": "POST", ":path": `/${method}`, "content-type": "application/grpc", te: "trailers" };
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const stream = session.request(headers);
    let trailers = {};
    stream.on("response", (found) => Object.assign(trailers, found));
    stream.on("trailers", (found) => Object.assign(trailers, found));
    stream.on("timeout", () => {
      // A connection that is silent leads nowhere any more: the next call makes a fresh one.
      if (this.#session === session) this.#session = undefined;
      stream.destroy(new Refused("DEADLINE_EXCEEDED", "STREAM_SILENT", "no answer in time"));
    });
    try {
      stream.setTimeout(silenceMs(undefined));
      const body = this.#contract.encode(inputType, request);
      const head = Buffer.alloc(5);
      head.writeUInt32BE(body.length, 1);
      stream.end(Buffer.concat([head, body]));
      let held = Buffer.alloc(0);
      for await (const chunk of stream) {
        held = Buffer.concat([held, chunk]);
        while (held.length >= 5 && held.length >= 5 + held.readUInt32BE(1)) {
          const end = 5 + held.readUInt32BE(1);
          const message = this.#contract.decode(outputType, held.subarray(5, end));
          held = held.subarray(end);
          stream.setTimeout(silenceMs(message));
          yield message;
        }
      }
    } catch (error) {
      if (error instanceof Refused) throw error;
      throw new Refused("UNAVAILABLE", "PEER_UNAVAILABLE", error.message);
    } finally {
      stream.close(constants.NGHTTP2_CANCEL);
    }
    const status = trailers["grpc-status"];
    if (status === undefined) throw new Refused("UNAVAILABLE", "STREAM_ENDED", "the connection was lost");
    if (status !== "0") throw this.#refusal(trailers);
  }

  close() {
    this.#session?.close();
  }

  #connected() {
    if (this.#session === undefined || this.#session.closed || this.#session.destroyed) {
      this.#session = connect(`http://${this.#address}`);
      this.#session.on("error", () => {}); // its streams say so
    }
    return this.#session;
  }

  #refusal(trailers) {
    const code = CODES[Number(trailers["grpc-status"])] ?? "UNKNOWN";
    const said = decodeURIComponent(trailers["grpc-message"] ?? "");
    let [reason, fields, retryMs] = [code, [], 0];
    const packed = Buffer.from(trailers["grpc-status-details-bin"] ?? "", "base64");
    for (const { typeUrl, value } of this.#contract.decode(".google.rpc.Status", packed).details) {
      const type = `.${typeUrl.split("/").at(-1)}`;
      const detail = this.#contract.types.has(type) ? this.#contract.decode(type, value) : {};
      if (type === ".google.rpc.ErrorInfo") reason = detail.reason;
      if (type === ".google.rpc.BadRequest") fields = detail.fields;
      if (type === ".google.rpc.RetryInfo") retryMs = detail.delay.seconds * 1_000 + detail.delay.nanos / 1e6;
    }
    return new Refused(code, reason, said, fields, retryMs);
  }
}
