"""`bench controller` and `bench bandwidth`: the controller, beside a Ryu application as it usually
looks."""
