"""What the three libraries do not have: recurrent language models, a recommender, torch.nn's own transformer."""
import torch
from torch import nn

from zoo.registry import LEN, VOCAB, Floats, Ids, add


class RecurrentLM(nn.Module):
    """The medium LSTM language model of Zaremba et al., 2014, batch first."""
    __module__ = "__main__"     # an archive holds class names, and these shall not depend on the file they are in
    def __init__(self, vocab, width, layers=2, cell=nn.LSTM):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.rnn = cell(width, width, layers, batch_first=True, dropout=0.5)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(width, vocab)

    def forward(self, ids):
        out, _ = self.rnn(self.drop(self.embed(ids)))
        return self.head(self.drop(out))


class Recommender(nn.Module):
    """After DLRM: dense MLP, embedding tables, pairwise dot products, top MLP."""
    __module__ = "__main__"     # an archive holds class names, and these shall not depend on the file they are in
    def __init__(self, rows, tables, dim, dense=13, bag=True):
        super().__init__()
        kind = (lambda: nn.EmbeddingBag(rows, dim, mode="sum")) if bag else (lambda: nn.Embedding(rows, dim))
        self.tables = nn.ModuleList([kind() for _ in range(tables)])
        self.bottom = nn.Sequential(nn.Linear(dense, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + dim, 8 * dim), nn.ReLU(), nn.Linear(8 * dim, 1), nn.Sigmoid())
        self.register_buffer("rows_", torch.tril_indices(tables + 1, tables + 1, -1), persistent=True)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        cols = [t(sparse[:, i]) for i, t in enumerate(self.tables)]
        z = torch.stack([x] + cols, 1)
        inter = torch.bmm(z, z.transpose(1, 2))[:, self.rows_[0], self.rows_[1]]
        return self.top(torch.cat([x, inter], 1))


def register_own():
    add("own_lstm_lm", "own", lambda: RecurrentLM(VOCAB, 64), Ids(LEN, high=VOCAB))
    add("own_gru_lm", "own", lambda: RecurrentLM(VOCAB, 64, cell=nn.GRU), Ids(LEN, high=VOCAB))
    add("own_dlrm", "own", lambda: Recommender(200, 6, 16), Floats(13), Ids(6, 4, high=200), batch=4, alt_batch=7)
    add("own_transformer", "own",
        lambda: nn.Transformer(64, 4, 2, 2, 128, batch_first=True), Floats(10, 64), Floats(7, 64))
    add("own_lstm_lm_2x650", "own", lambda: RecurrentLM(10000, 650), Ids(35, high=10000), suite="full")
    add("own_dlrm_26", "own", lambda: Recommender(10000, 26, 64, bag=False), Floats(13), Ids(26, high=10000),
        suite="full", batch=128, alt_batch=96)
