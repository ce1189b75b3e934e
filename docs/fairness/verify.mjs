// An independent verifier of Kozyr's deals, in JavaScript on Node (18 or newer), with no dependency.
//
//     node verify.mjs [--trusted KEYFILE] FILE...
//
// A FILE is a receipt or the test vectors. Of a receipt it checks the commitment, the seeds, every
// deck and random draw, the hash chain and the signature; whether each move was allowed is checked
// by `kozyr verify` alone. It is written from README.md beside it and shares no code with the rest.

import { createHash, createHmac, createPublicKey, verify as isSigned } from "node:crypto";
import { readFileSync } from "node:fs";

const SUITS = "SHDC";
const RANKS = "23456789TJQKA";
const FORMAT = "kozyr receipt 1";

class Wrong extends Error {}

const must = (held, where, what) => {
  if (!held) throw new Wrong(`${where}: ${what}`);
};
const hex = (text) => {
  must(typeof text === "string" && /^([0-9a-f]{2})*$/.test(text), "octets", "must be hexadecimal");
  return Buffer.from(text, "hex");
};
const maybe = (text) => (text === null ? null : hex(text));
const sha256 = (...parts) => createHash("sha256").update(Buffer.concat(parts)).digest();
const hmac = (key, message) => createHmac("sha256", key).update(message).digest();
const same = (one, two) => one !== null && two !== null && Buffer.compare(one, two) === 0;

function number(value, octets) {
  const made = Buffer.alloc(octets);
  let rest = BigInt(value);
  for (let at = octets - 1; at >= 0; at -= 1, rest >>= 8n) made[at] = Number(rest & 255n);
  return made;
}

// Cards and packs.

const pack = (suits, lowest) =>
  [...suits].flatMap((suit) =>
    [...RANKS.slice(RANKS.indexOf(lowest))].map(
      (rank) => SUITS.indexOf(suit) * 13 + RANKS.indexOf(rank),
    ),
  );
const PACKS = { azi: pack("SHD", "6"), durak: pack("SHDC", "6"), rami: pack("SHDC", "2") };
const cardText = (card) => RANKS[card % 13] + SUITS[Math.floor(card / 13)];

// Seeds, streams, decks and draws.

function framed(...fields) {
  const parts = fields.flatMap((field) =>
    field === null ? [number(0, 1)] : [number(1, 1), number(field.length, 4), field],
  );
  return Buffer.concat(parts);
}

const ascii = (text) => Buffer.from(text, "utf8");
const uuid = (text) => hex(text.replaceAll("-", ""));

function dealSeed(serverSeed, deal, game, contributions) {
  return hmac(serverSeed, framed(ascii("deal"), number(deal, 4), uuid(game), ...contributions));
}

function* words(seed, label) {
  for (let block = 0; ; block += 1) {
    const octets = hmac(seed, framed(ascii(label), number(block, 8)));
    for (let at = 0; at < 32; at += 8) yield octets.readBigUInt64BE(at);
  }
}

function below(stream, bound) {
  const limit = ((1n << 64n) / bound) * bound;
  for (;;) {
    const word = stream.next().value;
    if (word < limit) return word % bound;
  }
}

const drawn = (seed, label, bound) => Number(below(words(seed, label), BigInt(bound)));

function shuffled(seed, cards) {
  const deck = [...cards];
  const stream = words(seed, "deck");
  for (let i = deck.length - 1; i > 0; i -= 1) {
    const j = Number(below(stream, BigInt(i + 1)));
    [deck[i], deck[j]] = [deck[j], deck[i]];
  }
  return deck;
}

// How a deck is dealt: each dealt seat's hand, the card shown, and the rest, top first.

const rounds = (deck, seats, size, first) =>
  seats.map((_, at) => {
    const turn = (at - first + seats.length) % seats.length;
    return deck.slice(0, seats.length * size).filter((__, place) => place % seats.length === turn);
  });

function dealt(game, deck, seats, { cards: size, starter } = {}) {
  if (game === "azi") {
    const hands = seats.map((_, at) => deck.slice(at * size, (at + 1) * size));
    return { hands, shown: deck[seats.length * size], rest: deck.slice(seats.length * size + 1) };
  }
  const each = game === "durak" ? 6 : seats.length === 2 ? 7 : 10;
  const hands = rounds(deck, seats, each, game === "durak" ? 0 : starter);
  const [top, ...rest] = deck.slice(seats.length * each);
  if (game === "rami") return { hands, shown: top, rest };
  return { hands, shown: top ?? deck.at(-1), rest: top === undefined ? [] : [...rest, top] };
}

// Trees over cards (RFC 6962) and the opening of one of them.

const leaf = (item) => sha256(number(0, 1), item);
const node = (left, right) => sha256(number(1, 1), left, right);
const split = (size) => 2 ** Math.floor(Math.log2(size - 1));

function root(leaves) {
  if (leaves.length < 2) return leaves[0] ?? sha256();
  const cut = split(leaves.length);
  return node(root(leaves.slice(0, cut)), root(leaves.slice(cut)));
}

function climbed(found, place, size, path) {
  if (size === 1) return path.length === 0 ? found : null;
  if (path.length === 0) return null;
  const cut = split(size);
  const [rest, top] = [path.slice(0, -1), path[path.length - 1]];
  const inner =
    place < cut
      ? climbed(found, place, cut, rest)
      : climbed(found, place - cut, size - cut, rest);
  if (inner === null) return null;
  return place < cut ? node(inner, top) : node(top, inner);
}

const salt = (seed, place) => hmac(seed, framed(ascii("card"), number(place, 8)));
const cardLeaf = (place, card, salted) =>
  leaf(Buffer.concat([number(place, 1), number(card, 1), salted]));
const cardsRoot = (seed, deck) =>
  root(deck.map((card, place) => cardLeaf(place, card, salt(seed, place))));

// The hash chain.

const field = (value) =>
  value === null ? Buffer.from("ffffffff", "hex") : Buffer.concat([number(value.length, 4), value]);

function link(previous, game, row) {
  const fields = [
    ascii("kozyr event 1"),
    previous,
    uuid(game),
    number(row.version, 8),
    ascii(row.name),
    number(row.schema, 4),
    hex(row.payload),
    maybe(row.secret_digest),
    hex(row.metadata),
    maybe(row.request_id),
    maybe(row.body_hash),
    number(row.recorded_at, 8),
  ];
  return sha256(...fields.map(field));
}

// Signatures.

function signedBy(publicKey, message, signature) {
  const prefix = Buffer.from("302a300506032b6570032100", "hex");
  const der = Buffer.concat([prefix, publicKey]);
  if (publicKey.length !== 32 || signature.length !== 64) return false;
  const key = createPublicKey({ key: der, format: "der", type: "spki" });
  return isSigned(null, message, key, signature);
}

const keyId = (publicKey) => sha256(publicKey).toString("hex").slice(0, 16);

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

const receiptOctets = (trusted) => framed(ascii(FORMAT), ascii(canonical(trusted)));
const acknowledgement = (game, seat, hash, head) =>
  framed(ascii("kozyr seed 1"), uuid(game), number(seat, 1), hash, head);

// Stored events: protobuf, read by field number.

function message(octets) {
  const fields = new Map();
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      must(at < octets.length && shift < 70n, "payload", "is cut off");
      const octet = octets[at];
      at += 1;
      value |= BigInt(octet & 127) << shift;
      if (octet < 128) return value;
    }
  };
  while (at < octets.length) {
    const tag = Number(varint());
    let value;
    if ((tag & 7) === 0) value = Number(varint());
    else {
      must((tag & 7) === 2, "payload", "has a field of an unknown kind");
      const size = Number(varint());
      must(at + size <= octets.length, "payload", "is cut off");
      value = octets.subarray(at, at + size);
      at += size;
    }
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value]);
  }
  return {
    number: (name) => fields.get(name)?.at(-1) ?? 0,
    octets: (name) => fields.get(name)?.at(-1) ?? Buffer.alloc(0),
    has: (name) => fields.has(name),
    all: (name) => fields.get(name) ?? [],
    numbers: (name) =>
      (fields.get(name) ?? []).flatMap((value) =>
        typeof value === "number" ? [value] : [...varints(value)],
      ),
  };
}

function* varints(octets) {
  let value = 0;
  let scale = 1;
  for (const octet of octets) {
    value += (octet & 127) * scale;
    scale *= 128;
    if (octet < 128) {
      yield value;
      [value, scale] = [0, 1];
    }
  }
}

const cards = (numbers) => numbers.map((value) => value - 1);

// Receipts.

function opening(receipt) {
  const first = receipt.rows[0];
  must(first?.name === "game.GameOpened", "version 1", "is not GameOpened");
  const opened = message(hex(first.payload));
  must(opened.octets(11).toString() === receipt.game, "version 1", "is of another game");
  must(opened.octets(2).toString() === receipt.rules, "receipt.rules", "are not the game's");
  const kind = receipt.rules.split(" ")[0];
  must(kind in PACKS, "receipt.rules", "are of no game");
  const reveal = { azi: 7, durak: 3, rami: 5 }[kind];
  const options = message(message(opened.octets(3)).octets({ azi: 1, durak: 2, rami: 3 }[kind]));
  return {
    kind,
    own: options.octets(reveal).toString() === "own",
    bots: opened.all(4).map((seat) => message(seat).has(2)),
    commitment: opened.octets(10),
  };
}

// Each seat's seed that counts, null for none. A hash must come before any seed is shown.
function contributions(receipt, bots) {
  const hashes = bots.map(() => null);
  const seeds = bots.map(() => null);
  let stage = "committing";
  for (const row of receipt.rows) {
    const event = message(hex(row.payload));
    const [seat, octets] = [event.number(1), event.octets(2)];
    const where = `version ${row.version}`;
    if (row.name === "game.SeedCommitted") {
      must(stage === "committing", where, "a hash came late");
      must(bots[seat] === false && hashes[seat] === null, where, "a hash came twice or from a bot");
      hashes[seat] = octets;
    } else if (row.name === "game.CommitsClosed") {
      stage = "revealing";
    } else if (row.name === "game.SeedRevealed") {
      must(stage === "revealing", where, "a seed was shown before all hashes were closed");
      must(hashes[seat] !== null, where, "a seed has no hash");
      must(octets.length >= 16 && octets.length <= 64, where, "a seed has 16 to 64 octets");
      must(same(sha256(octets), hashes[seat]), where, "a seed is not that of its hash");
      seeds[seat] = octets;
    } else if (row.name === "game.SeedsClosed") {
      stage = "closed";
      const absent = seeds.flatMap((seed, number) => (seed === null ? [number] : []));
      const said = event.numbers(1);
      must(said.join() === absent.join(), where, "other seats are said to have given no seed");
    }
  }
  return seeds;
}

function checkChain(receipt) {
  let previous = Buffer.alloc(32);
  receipt.rows.forEach((row, at) => {
    const where = `version ${at + 1}`;
    must(row.version === at + 1, where, "is missing");
    const hash = hex(row.hash);
    must(same(link(previous, receipt.game, row), hash), where, "the hash is not that of the row");
    if (row.secret !== null && row.salt !== null) {
      const made = sha256(hex(row.salt), hex(row.secret));
      must(same(made, maybe(row.secret_digest)), where, "the secret is another");
    }
    previous = hash;
  });
}

function checkHead(receipt) {
  must(receipt.version === receipt.rows.length, "receipt.version", "is not the last row's");
  must(receipt.head === receipt.rows.at(-1)?.hash, "receipt.head", "is not the last row's hash");
}

// Deals as the seeds make them: decks, roots, and the random opener or starter.
function checkDeals(receipt, opened, seedOf) {
  const { kind, own } = opened;
  const [decks, live] = [new Map(), new Set()];
  let last = 0;
  const later = receipt.rows.map((row) => row.name).lastIndexOf("game.GameFinished");
  must(later === receipt.rows.length - 1, "receipt.rows", "do not end with the end of the game");
  for (const row of receipt.rows) {
    const [where, event] = [`version ${row.version}`, message(hex(row.payload))];
    if (row.name === `${kind}.Dealt`) {
      last += 1;
      must(event.number(1) === last, where, "a deal is missing");
      const deck = shuffled(seedOf(last), PACKS[kind]);
      const stored = cards(message(hex(row.secret)).numbers(1));
      must(stored.join() === deck.join(), where, "the deck is not the one the seeds make");
      decks.set(last, deck);
      const [shown] = cards([event.number({ azi: 4, durak: 6, rami: 5 }[kind])]);
      const seats = kind === "azi" ? event.numbers(2) : [...Array(event.number(2)).keys()];
      const open = dealt(kind, deck, seats, { cards: event.number(3), starter: event.number(4) });
      must(open.shown === shown, where, "the card shown is not the one that the deck shows");
      if (kind === "durak") checkStarter(where, event, seedOf(last));
      if (kind === "azi") {
        live.clear();
        event.numbers(2).forEach((seat) => live.add(seat));
      }
    } else if (row.name === "game.DealSeeded") {
      const deal = event.number(1);
      must(decks.has(deal), where, "there is no such deal");
      must(same(event.octets(2), sha256(seedOf(deal))), where, "the deal's seed is another");
      must(event.has(3) === own, where, "a root stands where, and only where, cards open singly");
      const made = own ? cardsRoot(seedOf(deal), decks.get(deal)) : null;
      must(!own || same(event.octets(3), made), where, "the root is not that of the deck");
    } else if (row.name === "game.DealRevealed") {
      const deal = event.number(1);
      must(!own && same(event.octets(2), seedOf(deal)), where, "the seed shown is another");
      const shown = cards(event.numbers(3));
      must(shown.join() === (decks.get(deal) ?? []).join(), where, "the deck shown is another");
    } else if (row.name === "azi.OpenerDrawn") {
      const deal = event.number(1);
      const seats = deal === 1 ? firstSeats(receipt) : [...live].sort((a, b) => a - b);
      const seat = seats[drawn(seedOf(deal), "opener", seats.length)];
      must(event.number(2) === seat, where, "the opener is not the one the seed draws");
    } else if (row.name === "azi.Folded" || row.name === "azi.SeatLeft") {
      live.delete(event.number(1));
    }
  }
  must(last > 0, "receipt.rows", "hold no deal");
}

// Before the first deal nobody folds: those who are dealt to are those the opener is drawn from.
function firstSeats(receipt) {
  const dealt = receipt.rows.find((row) => row.name === "azi.Dealt");
  return message(hex(dealt.payload)).numbers(2);
}

function checkStarter(where, dealt, seed) {
  if (dealt.has(4)) return; // somebody holds a trump: the rules name the starter, not chance
  const starter = drawn(seed, "starter", dealt.number(2));
  must(dealt.number(3) === starter, where, "the starter is not the one the seed draws");
}

// The cards of a player's receipt, against the root that stands with the deal.
function checkCards(receipt, opened) {
  const roots = new Map();
  for (const row of receipt.rows) {
    const event = message(hex(row.payload));
    if (row.name === "game.DealSeeded") roots.set(event.number(1), event.has(3) && event.octets(3));
  }
  const seen = new Set();
  receipt.cards.forEach((card, at) => {
    const where = `receipt.cards[${at}]`;
    const size = PACKS[opened.kind].length;
    must(roots.has(card.deal) && card.place < size, where, "there is no such deal or place");
    must(PACKS[opened.kind].includes(card.card), where, "the pack has no such card");
    for (const key of [`${card.deal} at ${card.place}`, `${card.deal} is ${card.card}`]) {
      must(!seen.has(key), where, "a card or a place comes twice");
      seen.add(key);
    }
    must((card.salt !== null) === opened.own, where, "proof stands where it should not, or lacks");
    if (!opened.own) return;
    const made = cardLeaf(card.place, card.card, hex(card.salt));
    const top = climbed(made, card.place, size, card.path.map(hex));
    must(top !== null && same(top, roots.get(card.deal)), where, "is not in the deck");
  });
}

function checkAcknowledged(receipt, publicKey) {
  const { seat, hash, head, signature } = receipt.acknowledged;
  const where = "receipt.acknowledged";
  const row = receipt.rows.find((each) => each.hash === head);
  must(seat === receipt.viewer && row?.name === "game.SeedCommitted", where, "is not in the log");
  const event = message(hex(row.payload));
  must(event.number(1) === seat && same(event.octets(2), hex(hash)), where, "is of another hash");
  const signed = acknowledgement(receipt.game, seat, hex(hash), hex(head));
  must(signedBy(publicKey, signed, hex(signature)), where, "is not signed by the key");
}

function checkReceipt(file, trusted) {
  must(file.format === FORMAT, "file.format", `must be ${FORMAT}`);
  const receipt = file.receipt;
  const publicKey = hex(file.signature.public_key);
  const opened = opening(receipt);
  const seeds = contributions(receipt, opened.bots);
  checkHead(receipt);
  if (receipt.kind === "full") {
    checkChain(receipt);
    const server = hex(receipt.server_seed);
    must(same(sha256(server), opened.commitment), "receipt.server_seed", "was not committed to");
    const end = message(hex(receipt.rows.at(-1).payload)).octets(2);
    must(opened.own ? end.length === 0 : same(end, server), "receipt.rows", "end otherwise");
    checkDeals(receipt, opened, (deal) => dealSeed(server, deal, receipt.game, seeds));
  } else {
    must(receipt.kind === "player", "receipt.kind", "is unknown");
    checkCards(receipt, opened);
    if (receipt.acknowledged !== null) checkAcknowledged(receipt, publicKey);
  }
  must(file.signature.key === keyId(publicKey), "signature.key", "is not the name of the key");
  must(trusted.length === 0 || trusted.some((key) => same(key, publicKey)), "signature", "another key");
  const signed = signedBy(publicKey, receiptOctets(receipt), hex(file.signature.signature));
  must(signed, "signature.signature", "is not that of the key under this receipt");
  return `${receipt.rules}, ${receipt.version} events, ${receipt.kind}`;
}

// Test vectors.

function checkVectors(file) {
  let count = 0;
  const equal = (where, made, said) => {
    must(String(made) === String(said), where, `made ${made}, the vectors say ${said}`);
    count += 1;
  };
  const text = (octets) => octets.toString("hex");
  for (const [name, said] of Object.entries(file.cards)) {
    equal(`cards.${name}`, PACKS[name].map(cardText).join(" "), said);
  }
  file.framed.forEach((v, at) =>
    equal(`framed[${at}]`, text(framed(...v.fields.map(maybe))), v.octets),
  );
  file.commitments.forEach((v, at) =>
    equal(`commitments[${at}]`, text(sha256(hex(v.seed))), v.commitment),
  );
  file.deal_seeds.forEach((v, at) => {
    const seed = dealSeed(hex(v.server_seed), v.deal, v.game, v.contributions.map(maybe));
    equal(`deal_seeds[${at}]`, text(seed), v.deal_seed);
    equal(`deal_seeds[${at}]`, text(sha256(seed)), v.deal_seed_hash);
  });
  file.streams.forEach((v, at) => {
    const stream = words(hex(v.seed), v.label);
    const made = v.numbers.map(() => below(stream, BigInt(v.bound)));
    equal(`streams[${at}]`, made.join(), v.numbers.join());
  });
  file.decks.forEach((v, at) => {
    const deck = shuffled(hex(v.deal_seed), PACKS[v.game]);
    equal(`decks[${at}]`, deck.map(cardText).join(" "), v.deck);
  });
  file.deals.forEach((v, at) => {
    const deck = shuffled(hex(v.deal_seed), PACKS[v.game]);
    const { hands, shown, rest } = dealt(v.game, deck, v.seats, v);
    const words = (list) => list.map(cardText).join(" ");
    equal(`deals[${at}].hands`, hands.map(words).join("; "), v.hands.join("; "));
    equal(`deals[${at}].shown`, cardText(shown), v.shown);
    equal(`deals[${at}].rest`, words(rest), v.rest);
  });
  file.draws.forEach((v, at) =>
    equal(`draws[${at}]`, drawn(hex(v.deal_seed), v.label, v.bound), v.drawn),
  );
  file.trees.forEach((v, at) => {
    const leaves = v.items.map((item) => leaf(hex(item)));
    equal(`trees[${at}].root`, text(root(leaves)), v.root);
    const top = climbed(leaves[v.place], v.place, leaves.length, v.path.map(hex));
    equal(`trees[${at}].path`, text(top), v.root);
  });
  file.openings.forEach((v, at) => {
    const [seed, where] = [hex(v.deal_seed), `openings[${at}]`];
    const deck = shuffled(seed, PACKS[v.game]);
    equal(where, deck[v.place], v.card);
    equal(where, text(salt(seed, v.place)), v.salt);
    equal(where, text(cardsRoot(seed, deck)), v.cards_root);
    const made = cardLeaf(v.place, v.card, hex(v.salt));
    equal(where, text(climbed(made, v.place, deck.length, v.path.map(hex))), v.cards_root);
  });
  let previous = Buffer.alloc(32);
  for (const row of file.chain.rows) {
    previous = link(previous, file.chain.game, row);
    equal(`chain version ${row.version}`, text(previous), row.hash);
    if (row.secret === null) continue;
    const digest = sha256(hex(row.salt), hex(row.secret));
    equal(`chain version ${row.version}`, text(digest), row.secret_digest);
  }
  file.signatures.forEach((v, at) => {
    const made =
      "receipt" in v
        ? receiptOctets(v.receipt)
        : acknowledgement(v.game, v.seat, hex(v.hash), hex(v.head));
    equal(`signatures[${at}].signed`, text(made), v.signed);
    equal(`signatures[${at}].key`, keyId(hex(v.public_key)), v.key);
    equal(`signatures[${at}]`, signedBy(hex(v.public_key), made, hex(v.signature)), true);
  });
  return `${count} test vectors`;
}

// The command line.

function readKey(path) {
  const key = createPublicKey(readFileSync(path));
  return key.export({ format: "der", type: "spki" }).subarray(12);
}

function main(words) {
  const [trusted, files] = [[], []];
  while (words.length > 0) {
    const word = words.shift();
    if (word === "--trusted") trusted.push(readKey(words.shift()));
    else files.push(word);
  }
  if (files.length === 0) {
    process.stderr.write("usage: node verify.mjs [--trusted KEYFILE] FILE...\n");
    return 2;
  }
  let wrong = 0;
  for (const path of files) {
    let said;
    try {
      const file = JSON.parse(readFileSync(path, "utf8"));
      said = `ok ${path}: ${"streams" in file ? checkVectors(file) : checkReceipt(file, trusted)}`;
    } catch (problem) {
      wrong += 1;
      said = `WRONG ${path}: ${problem instanceof Wrong ? problem.message : `cannot be read (${problem.name})`}`;
    }
    process.stdout.write(`${said}\n`);
  }
  return wrong > 0 ? 1 : 0;
}

process.exitCode = main(process.argv.slice(2));
