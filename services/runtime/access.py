"""Who may call each RPC of the four services: one row for every method there is.

A method without a row is answered UNIMPLEMENTED, and a test fails for it. What is public, the edge
(`deploy/components/edge/envoy.yaml`) lets through without a token; a test holds it to this table.
What a row allows is decided before anything is looked up, so a refusal tells nothing about what
exists. What reads a game's whole log is dear: a history, and the steps since a resume token as
well. Whether the caller may touch *this* table, game or account is the servicer's to decide.
"""

from collections.abc import Mapping

from services.runtime.auth import Access, allow

PLATFORM: Mapping[str, Access] = {
    "/grpc.health.v1.Health/Check": allow("public", limited=False),
    "/grpc.health.v1.Health/Watch": allow("public", limited=False),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": allow("public"),
}

LOBBY: Mapping[str, Access] = {
    "/kozyr.lobby.v1.IdentityService/SignUp": allow("public", cost=20),
    "/kozyr.lobby.v1.IdentityService/SignIn": allow("public", cost=10),
    "/kozyr.lobby.v1.IdentityService/Refresh": allow("public", cost=2),
    "/kozyr.lobby.v1.IdentityService/SignInWithPassword": allow("public", cost=20),
    "/kozyr.lobby.v1.IdentityService/GetChallenge": allow("public", cost=2),
    "/kozyr.lobby.v1.IdentityService/SignInWithKey": allow("public", cost=10),
    "/kozyr.lobby.v1.IdentityService/SignInExternal": allow("public", cost=20),
    "/kozyr.lobby.v1.IdentityService/GetKeys": allow("public"),
    "/kozyr.lobby.v1.IdentityService/SetPassword": allow("player", cost=20),
    "/kozyr.lobby.v1.IdentityService/RenewSecret": allow("player", cost=5),
    "/kozyr.lobby.v1.IdentityService/AddDevice": allow("player", cost=5),
    "/kozyr.lobby.v1.IdentityService/RemoveDevice": allow("player", cost=5),
    "/kozyr.lobby.v1.IdentityService/LinkExternal": allow("player", cost=20),
    "/kozyr.lobby.v1.IdentityService/SignOut": allow("player"),
    "/kozyr.lobby.v1.IdentityService/SignOutEverywhere": allow("player"),
    "/kozyr.lobby.v1.IdentityService/ListPlayers": allow("player", "operator", "service:game"),
    "/kozyr.lobby.v1.IdentityService/GetProfile": allow("player", "operator"),
    "/kozyr.lobby.v1.IdentityService/ErasePlayer": allow("player", "operator", cost=20),
    "/kozyr.lobby.v1.IdentityService/ListErasures": allow("operator"),
    "/kozyr.lobby.v1.StandingService/GetStatistics": allow("player", "operator"),
    "/kozyr.lobby.v1.StandingService/ListPlayerGames": allow("player", "operator", cost=2),
    "/kozyr.lobby.v1.StandingService/ListLeaders": allow("player", "operator", cost=2),
    "/kozyr.lobby.v1.StandingService/SetListed": allow("player", cost=5),
    "/kozyr.lobby.v1.StandingService/VerifyStandings": allow("operator", cost=20),
    "/kozyr.lobby.v1.StandingService/ListGameLines": allow("operator", cost=5),
    "/kozyr.lobby.v1.StandingService/RecordGame": allow("operator"),
    "/kozyr.lobby.v1.StandingService/StrikeGame": allow("operator", cost=5),
    "/kozyr.lobby.v1.LimitService/GetLimits": allow("player", "operator", cost=2),
    "/kozyr.lobby.v1.LimitService/SetLimit": allow("player", cost=5),
    "/kozyr.lobby.v1.LimitService/WithdrawLimitChange": allow("player", cost=5),
    "/kozyr.lobby.v1.LimitService/ExcludeMyself": allow("player", cost=5),
    "/kozyr.lobby.v1.LimitService/ListLimitChanges": allow("player", "operator"),
    "/kozyr.lobby.v1.LimitService/SetHouseLimit": allow("operator"),
    "/kozyr.lobby.v1.LimitService/ExcludePlayer": allow("operator"),
    "/kozyr.lobby.v1.LobbyService/ListVariants": allow("public"),
    "/kozyr.lobby.v1.LobbyService/CreateTable": allow("player", cost=5),
    "/kozyr.lobby.v1.LobbyService/ListTables": allow("player", "operator"),
    "/kozyr.lobby.v1.LobbyService/GetTable": allow("player", "operator", "service:game"),
    "/kozyr.lobby.v1.LobbyService/WatchTables": allow("player", "operator", cost=2),
    "/kozyr.lobby.v1.LobbyService/TakeSeat": allow("player"),
    "/kozyr.lobby.v1.LobbyService/LeaveSeat": allow("player"),
    "/kozyr.lobby.v1.LobbyService/AddBot": allow("player"),
    "/kozyr.lobby.v1.LobbyService/RemoveBot": allow("player"),
    "/kozyr.lobby.v1.LobbyService/SetReady": allow("player"),
    "/kozyr.lobby.v1.LobbyService/StartGame": allow("player"),
    "/kozyr.lobby.v1.LobbyService/Rematch": allow("player"),
    "/kozyr.lobby.v1.LobbyService/KickPlayer": allow("player"),
    "/kozyr.lobby.v1.LobbyService/InvitePlayer": allow("player"),
    "/kozyr.lobby.v1.LobbyService/UninvitePlayer": allow("player"),
    "/kozyr.lobby.v1.LobbyService/HandOverHost": allow("player"),
    "/kozyr.lobby.v1.LobbyService/TopUp": allow("player"),
    "/kozyr.lobby.v1.LobbyService/QuickPlay": allow("player", cost=5),
    "/kozyr.lobby.v1.LobbyService/CloseTable": allow("player", "operator"),
    "/kozyr.lobby.v1.LobbyService/ReportGame": allow("service:game"),
    "/kozyr.lobby.v1.LobbyService/ListTableEvents": allow("player", "operator", cost=5),
    "/kozyr.lobby.v1.TalkService/SendEmote": allow("player"),
    "/kozyr.lobby.v1.TalkService/SendMessage": allow("player"),
    "/kozyr.lobby.v1.TalkService/Mute": allow("player"),
    "/kozyr.lobby.v1.TalkService/Unmute": allow("player"),
    "/kozyr.lobby.v1.TalkService/ListMutes": allow("player"),
    "/kozyr.lobby.v1.TalkService/ListTalk": allow("player", cost=5),
    "/kozyr.lobby.v1.TalkService/WatchTalk": allow("player", cost=2),
}

GAME: Mapping[str, Access] = {
    "/kozyr.game.v1.GameService/CreateGame": allow("service:lobby"),
    "/kozyr.game.v1.GameService/CancelGame": allow("service:lobby"),
    "/kozyr.game.v1.GameService/GetGame": allow(
        "player", "operator", "service:lobby", dear=("history", 5)
    ),
    "/kozyr.game.v1.GameService/ListGames": allow("player", "operator"),
    "/kozyr.game.v1.GameService/CommitSeed": allow("player"),
    "/kozyr.game.v1.GameService/RevealSeed": allow("player"),
    "/kozyr.game.v1.GameService/SubmitMove": allow("player"),
    "/kozyr.game.v1.GameService/LeaveGame": allow("player"),
    "/kozyr.game.v1.GameService/ReturnToSeat": allow("player"),
    "/kozyr.game.v1.GameService/GetHint": allow("player", cost=5),
    "/kozyr.game.v1.GameService/WatchGame": allow(
        "player", "operator", cost=2, dear=("resume_token", 5)
    ),
    "/kozyr.game.v1.GameService/GetReceipt": allow("player", "operator", cost=5),
    "/kozyr.game.v1.HistoryService/ReplayOwnGame": allow("player", cost=5),
    "/kozyr.game.v1.HistoryService/ShareGame": allow("player", cost=5),
    "/kozyr.game.v1.HistoryService/ListShares": allow("player", "operator"),
    "/kozyr.game.v1.HistoryService/RevokeShare": allow("player"),
    "/kozyr.game.v1.HistoryService/GetSharedGame": allow("public", cost=2),
    "/kozyr.game.v1.HistoryService/ReplaySharedGame": allow("public", cost=20),
    "/kozyr.game.v1.AuditService/ListLogs": allow("operator", cost=5),
    "/kozyr.game.v1.AuditService/ReadLog": allow("operator"),
    "/kozyr.game.v1.AuditService/ReplayGame": allow("player", "operator", cost=5),
    "/kozyr.game.v1.AuditService/VerifyGame": allow("operator"),
    "/kozyr.game.v1.AuditService/VerifyGames": allow("operator", cost=20),
    "/kozyr.game.v1.AuditService/ListAccesses": allow("operator"),
    "/kozyr.game.v1.AuditService/ExportGame": allow("player", "operator", cost=5),
    "/kozyr.game.v1.AuditService/OpenDispute": allow("player", cost=5),
    "/kozyr.game.v1.AuditService/ListDisputes": allow("player", "operator"),
    "/kozyr.game.v1.AuditService/ResolveDispute": allow("operator"),
    "/kozyr.game.v1.KeyService/ListKeys": allow("operator"),
    "/kozyr.game.v1.KeyService/ListClosedGames": allow("operator", cost=20),
    "/kozyr.game.v1.KeyService/WrapKeys": allow("operator", cost=20),
    "/kozyr.game.v1.AuditService/GetDispute": allow("player", "operator"),
    "/kozyr.game.v1.AuditService/GetEvidence": allow("operator", cost=5),
    "/kozyr.game.v1.AuditService/ApproveRuling": allow("operator"),
    "/kozyr.game.v1.AuditService/WithdrawRuling": allow("operator"),
    "/kozyr.game.v1.AuditService/ListClaims": allow("operator"),
    "/kozyr.game.v1.AuditService/CollectClaim": allow("operator"),
    "/kozyr.game.v1.AuditService/GetTraces": allow("player", "operator"),
    "/kozyr.game.v1.AuditService/CheckErasure": allow("service:lobby"),
    "/kozyr.game.v1.AuditService/ErasePlayer": allow("service:lobby"),
    "/kozyr.game.v1.CheckpointService/GetInclusionProof": allow("player", "operator", cost=2),
    "/kozyr.game.v1.CheckpointService/GetConsistencyProof": allow("player", "operator", cost=2),
    "/kozyr.game.v1.CheckpointService/ListCheckpoints": allow("player", "operator"),
    "/kozyr.game.v1.CheckpointService/GetCoverage": allow("operator", cost=20),
    "/kozyr.game.v1.CheckpointService/VerifyTree": allow("operator", cost=20),
}

AI: Mapping[str, Access] = {
    "/kozyr.ai.v1.AiService/ChooseMove": allow("player", "service:game", cost=5, items=4_096),
    "/kozyr.ai.v1.AiService/ListBots": allow("player", "operator", "service:lobby", "service:game"),
}

WALLET: Mapping[str, Access] = {
    "/kozyr.wallet.v1.WalletService/OpenAccount": allow("service:lobby"),
    "/kozyr.wallet.v1.WalletService/GetAccount": allow(
        "player", "operator", "service:lobby", "service:game"
    ),
    "/kozyr.wallet.v1.WalletService/ListTransfers": allow("player", "operator"),
    "/kozyr.wallet.v1.WalletService/Reserve": allow("service:lobby"),
    "/kozyr.wallet.v1.WalletService/Pin": allow("service:game"),
    "/kozyr.wallet.v1.WalletService/Settle": allow("service:game"),
    "/kozyr.wallet.v1.WalletService/Void": allow("operator", "service:lobby", "service:game"),
    "/kozyr.wallet.v1.WalletService/Grant": allow("operator", "service:lobby"),
    "/kozyr.wallet.v1.WalletService/WatchAccount": allow("player", "operator", cost=2),
    "/kozyr.wallet.v1.WalletService/TrialBalance": allow("operator"),
    "/kozyr.wallet.v1.WalletService/ListReservations": allow(
        "operator", "service:lobby", "service:game"
    ),
    "/kozyr.wallet.v1.WalletService/FundReserve": allow("operator"),
    "/kozyr.wallet.v1.WalletService/Compensate": allow("service:game"),
    "/kozyr.wallet.v1.WalletService/Collect": allow("service:game"),
    "/kozyr.wallet.v1.WalletService/ListGameTransfers": allow("operator", "service:game"),
    "/kozyr.wallet.v1.WalletService/Forfeit": allow("service:lobby"),
    "/kozyr.wallet.v1.WalletService/ListHoldings": allow("player", "operator"),
}

ACCESS: Mapping[str, Access] = {**PLATFORM, **LOBBY, **GAME, **AI, **WALLET}
"""Full method name (`/package.Service/Method`) → who may call it."""
