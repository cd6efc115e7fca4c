"""Other people's formats, as tables read in both directions."""
