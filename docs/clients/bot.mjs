// Plays one game of Durak with any legal move: node bot.mjs

import { Client, Contract, Refused } from "./kozyr.mjs";

const contract = new Contract(process.env.KOZYR_CONTRACT ?? "kozyr.json");
const lobby = new Client(process.env.KOZYR_LOBBY_ADDRESS ?? "127.0.0.1:7001", contract);
const games = new Client(process.env.KOZYR_GAME_ADDRESS ?? "127.0.0.1:7002", contract);
const LOBBY = "kozyr.lobby.v1.LobbyService";
const GAME = "kozyr.game.v1.GameService";
const ENDED = ["STAGE_FINISHED", "STAGE_CANCELLED"];

// Every view of a game until it has ended, in order, across lost connections.
async function* follow(gameId) {
  let [resumeToken, seen] = [Buffer.alloc(0), 0];
  const silenceMs = (message) => (message === undefined ? 2_000 : 1.5 * message.heartbeatMs || 15_000);
  for (;;) {
    try {
      for await (const message of games.stream(`${GAME}/WatchGame`, { gameId, resumeToken }, silenceMs)) {
        resumeToken = message.resumeToken;
        const view = (message.step ?? message.snapshot)?.view;
        if (view === undefined || view.version <= seen) continue;
        seen = view.version;
        yield view;
        if (ENDED.includes(view.stage)) return;
      }
    } catch (refused) {
      if (!["UNAVAILABLE", "DEADLINE_EXCEEDED"].includes(refused.code)) throw refused;
    }
    await new Promise((done) => setTimeout(done, 100 + 400 * Math.random()));
  }
}

const { tokens } = await lobby.call("kozyr.lobby.v1.IdentityService/SignUp", { displayName: "Any Move" });
lobby.token = games.token = tokens.accessToken;
const asked = { variant: "VARIANT_DURAK", seats: 2, bots: "BOT_LEVEL_EASY" };
let { table } = await lobby.call(`${LOBBY}/QuickPlay`, asked);
for await (const message of lobby.stream(`${LOBBY}/WatchTables`, { tableId: table.tableId })) {
  table = message.table ?? table;
  if (table.state === "TABLE_STATE_PLAYING") break;
}
let last;
for await (const view of follow(table.gameId)) {
  last = view;
  if (!view.toAct.includes(view.seat)) continue;
  const legal = view.durak.legal;
  const move = { durak: legal[Math.floor(Math.random() * legal.length)] };
  try {
    await games.call(`${GAME}/SubmitMove`, { gameId: view.gameId, turn: view.turn, move });
  } catch (refused) {
    // The time was up, or somebody was faster: the next view says what is asked now.
    if (!(refused instanceof Refused) || !["ABORTED", "FAILED_PRECONDITION"].includes(refused.code)) throw refused;
  }
}
console.log(`${last.stage} at version ${last.version}`);
lobby.close();
games.close();
